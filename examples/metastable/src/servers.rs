//! The servers. They know nothing of calls: a request whose caller has its answer elsewhere is served to its end.

use std::collections::VecDeque;

use crate::timeline::{BROWN_OUT, SERVERS, SLOWER};

/// Every server.
#[derive(Debug, Default)]
pub(crate) struct Servers([Server; SERVERS]);

#[derive(Debug, Default)]
struct Server {
    /// When it is done with what it has.
    free: f64,
    /// When it will begin with each request that waits.
    begins: VecDeque<f64>,
}

impl Servers {
    /// Sends a request that is so many seconds of work to a server; when it will be answered.
    pub(crate) fn send(&mut self, now: f64, server: usize, work: f64) -> f64 {
        let server = &mut self.0[server % SERVERS];
        let begins = now.max(server.free);
        let slower = if BROWN_OUT.contains(&begins) { SLOWER } else { 1.0 };
        server.begins.push_back(begins);
        server.free = begins + work * slower;
        server.free
    }

    /// How many requests wait at each.
    pub(crate) fn queues(&mut self, now: f64) -> Vec<f64> {
        let waiting = |server: &mut Server| {
            while server.begins.front().is_some_and(|begins| *begins <= now) {
                server.begins.pop_front();
            }
            server.begins.len() as f64
        };
        self.0.iter_mut().map(waiting).collect()
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "sums of small whole numbers are exact")]
mod tests {
    use super::Servers;
    use crate::timeline::BROWN_OUT;

    #[test]
    fn a_server_serves_one_request_at_a_time_in_their_order() {
        let mut servers = Servers::default();
        assert_eq!(servers.send(10.0, 3, 2.0), 12.0);
        assert_eq!(servers.send(11.0, 3, 4.0), 16.0);
        assert_eq!(servers.send(11.0, 4, 4.0), 15.0);
        assert_eq!(servers.queues(11.0)[3..5], [1.0, 0.0]);
        assert_eq!(servers.queues(12.0)[3..5], [0.0, 0.0]);
        assert_eq!(servers.send(20.0, 3, 1.0), 21.0);
    }

    #[test]
    fn what_begins_in_the_brown_out_takes_1_6_times_as_long() {
        let mut servers = Servers::default();
        let (start, end) = (BROWN_OUT.start, BROWN_OUT.end);
        assert_eq!(servers.send(start - 1.0, 0, 1.0), start);
        assert_eq!(servers.send(start - 1.0, 0, 10.0), start + 16.0);
        assert_eq!(servers.send(end, 0, 1.0), end + 2.0);
    }
}
