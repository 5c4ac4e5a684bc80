//! Which of several policies may write a ConfigMap.

use hedgerow_tuner::Timestamp;

use super::name::PolicyKey;

/// A policy that names a ConfigMap as one of its outputs. It claims as long as it exists, whatever its mode or validity:
/// else the ConfigMap would change hands while somebody mends a typing error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// The policy.
    pub policy: PolicyKey,
    /// Its UID.
    pub uid: String,
    /// When it was created.
    pub created: Timestamp,
}

/// The claimant that may write: the oldest, and of the same age the first by name.
pub fn winner(claimants: impl IntoIterator<Item = Claimant>) -> Option<Claimant> {
    claimants
        .into_iter()
        .min_by(|a, b| (a.created, &a.policy).cmp(&(b.created, &b.policy)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimant(name: &str, created: i64) -> Claimant {
        Claimant {
            policy: PolicyKey::new("helpdesk", name),
            uid: format!("uid-{name}"),
            created: Timestamp::from_millis(created),
        }
    }

    fn winner_of(claimants: &[Claimant]) -> Option<String> {
        winner(claimants.to_vec()).map(|claimant| claimant.policy.name)
    }

    #[test]
    fn nobody_wins_what_nobody_claims() {
        assert_eq!(winner_of(&[]), None);
    }

    #[test]
    fn the_oldest_wins() {
        let claimants = [claimant("a", 2_000), claimant("b", 1_000)];
        assert_eq!(winner_of(&claimants).as_deref(), Some("b"));
    }

    #[test]
    fn of_the_same_age_the_first_by_name_wins() {
        let claimants = [claimant("b", 1_000), claimant("a", 1_000)];
        assert_eq!(winner_of(&claimants).as_deref(), Some("a"));
    }

    #[test]
    fn the_next_wins_when_the_winner_goes() {
        let claimants = [claimant("a", 2_000), claimant("c", 3_000)];
        assert_eq!(winner_of(&claimants).as_deref(), Some("a"));
    }
}
