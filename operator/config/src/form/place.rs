//! Where a document keeps what it tells of a target.

use super::Part;

/// A place in a document.
pub(super) trait Place {
    /// Whether what is told there would be told here as well.
    fn is_same(&self, other: &Self) -> bool;
}

/// The targets of the first two parts in one place, in their order.
pub(super) fn twice<P: Place>(parts: &[Part<P>]) -> Option<[&str; 2]> {
    let earlier = |(at, later): (usize, &Part<P>)| {
        let same = |earlier: &&Part<P>| earlier.place.is_same(&later.place);
        parts[..at].iter().find(same)
    };
    let mut parts_and_earlier = parts.iter().enumerate().map(|later| (earlier(later), later.1));
    parts_and_earlier.find_map(|(earlier, later)| Some([earlier?.target.as_str(), later.target.as_str()]))
}
