//! The ways to hedge a shard call: none, what libraries do, and what Hedgerow does.

use std::future::Future;
use std::pin::pin;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use futures::future::{BoxFuture, Either, select};
use futures::{FutureExt as _, TryFutureExt as _};
use hedgerow_client::{CallError, Hedger};
use tokio::time::timeout;
use tower::hedge::{Hedge, Policy};
use tower::util::BoxCloneService;
use tower::{BoxError, Service as _};

use crate::read::{Read, Reader, Section};

/// How `tower::hedge` is set: at the 95th percentile of the last 10 s, once there are 100 reads in it.
const TOWER_PERCENTILE: f32 = 0.95;
const TOWER_PERIOD: Duration = Duration::from_secs(10);
const TOWER_MIN_READS: u64 = 100;

/// Which way, as the command line says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One attempt.
    None,
    /// A second attempt after a delay that is written in the program; the first answer wins, whatever it is.
    Static(Duration),
    /// `tower::hedge`.
    Tower,
    /// As the document says.
    Hedgerow,
}

/// What `tower::hedge` makes of a reader.
type Towered = Hedge<BoxCloneService<Read, Section, BoxError>, Always>;

/// A way, ready for calls.
pub(crate) enum Hedging {
    /// See [`Way::None`].
    None,
    /// See [`Way::Static`].
    Static(Duration),
    /// See [`Way::Tower`].
    Tower(Mutex<Towered>),
    /// See [`Way::Hedgerow`].
    Hedgerow(Hedger),
}

/// Why a call brought no section.
#[derive(Debug)]
pub(crate) enum Missed {
    /// The deadline passed.
    Late,
    /// What came was no valid answer.
    Failed(anyhow::Error),
}

impl FromStr for Way {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.split_once(':') {
            None if text == "none" => Self::None,
            None if text == "tower" => Self::Tower,
            None if text == "hedgerow" => Self::Hedgerow,
            Some(("static", millis)) => Self::Static(Duration::from_millis(millis.parse()?)),
            _ => bail!("must be none, static:MILLISECONDS, tower or hedgerow"),
        })
    }
}

/// Any read may be hedged.
#[derive(Clone, Debug)]
pub(crate) struct Always;

impl Policy<Read> for Always {
    fn clone_request(&self, read: &Read) -> Option<Read> {
        Some(read.attempt(read.attempt + 1))
    }

    fn can_retry(&self, _: &Read) -> bool {
        true
    }
}

impl Hedging {
    /// `tower::hedge` around a reader.
    pub(crate) fn tower(reader: Reader) -> Self {
        let service = BoxCloneService::new(tower::service_fn(move |read| {
            let reader = reader.clone();
            async move { reader.read(read).await.map_err(BoxError::from) }
        }));
        Self::Tower(Mutex::new(Hedge::new(
            service,
            Always,
            TOWER_MIN_READS,
            TOWER_PERCENTILE,
            TOWER_PERIOD,
        )))
    }

    /// Reads one section of the current version, within the deadline.
    pub(crate) async fn call(
        &self,
        reader: &Reader,
        read: &Read,
        deadline: Duration,
    ) -> Result<Section, Missed> {
        let attempt = {
            let (reader, read) = (reader.clone(), read.clone());
            move |number| reader.read(read.attempt(number))
        };
        // Boxed: each way is a future of another type.
        let section: BoxFuture<'_, Result<Section>> = match self {
            Self::Hedgerow(hedger) => return hedgerow(hedger, read.replicas.len(), attempt).await,
            Self::None => attempt(0).boxed(),
            Self::Static(delay) => first_of_two(*delay, attempt).boxed(),
            Self::Tower(hedge) => tower(hedge, read.attempt(0)).boxed(),
        };
        let section = timeout(deadline, section).await;
        let section = section.map_err(|_| Missed::Late)?.map_err(Missed::Failed)?;
        // These ways know nothing of versions: what won is looked at when the race is over.
        section
            .must_be_current()
            .map_err(|why| Missed::Failed(anyhow!(why)))?;
        Ok(section)
    }
}

/// The deadline is the hedger's.
fn hedgerow<A: Future<Output = Result<Section>> + Send>(
    hedger: &Hedger,
    replicas: usize,
    attempt: impl Fn(usize) -> A + Send,
) -> impl Future<Output = Result<Section, Missed>> + Send {
    let attempt = move |new: hedgerow_client::Attempt| attempt(new.number);
    let current = |section: &Section| section.must_be_current().map_err(Into::into);
    let answer = hedger.call_checked(replicas, attempt, current);
    answer.map_err(|why| match why {
        CallError::DeadlineExceeded { .. } => Missed::Late,
        why => Missed::Failed(anyhow!("{why}")),
    })
}

fn tower(hedge: &Mutex<Towered>, read: Read) -> impl Future<Output = Result<Section>> + Send + use<> {
    // The service below is a function, which is always ready.
    let answer = hedge.lock().unwrap_or_else(PoisonError::into_inner).call(read);
    answer.map_err(|why| anyhow!(why))
}

/// A second attempt when the first has not answered after `delay`; what answers first wins, an error too.
async fn first_of_two<T, A: Future<Output = T>>(delay: Duration, attempt: impl Fn(usize) -> A) -> T {
    let mut first = pin!(attempt(0));
    if let Ok(answer) = timeout(delay, first.as_mut()).await {
        return answer;
    }
    match select(first, pin!(attempt(1))).await {
        Either::Left((answer, _)) | Either::Right((answer, _)) => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep};

    #[test]
    fn ways_are_read_from_the_command_line() {
        assert_eq!("none".parse::<Way>().unwrap(), Way::None);
        assert_eq!(
            "static:200".parse::<Way>().unwrap(),
            Way::Static(Duration::from_millis(200))
        );
        assert_eq!("tower".parse::<Way>().unwrap(), Way::Tower);
        assert_eq!("hedgerow".parse::<Way>().unwrap(), Way::Hedgerow);
        for wrong in ["", "static", "static:x", "tower:1", "None"] {
            assert!(wrong.parse::<Way>().is_err(), "{wrong}");
        }
    }

    /// Which of two attempts, that take these many ms, is the answer of a delay of 100 ms, and when it comes.
    async fn race(took: [u64; 2]) -> (usize, Duration) {
        let began = Instant::now();
        let answer = first_of_two(Duration::from_millis(100), |number| async move {
            sleep(Duration::from_millis(took[number])).await;
            number
        })
        .await;
        (answer, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_static_delay_sends_the_second_attempt_after_it_and_takes_the_first_answer() {
        assert_eq!(race([50, 0]).await, (0, Duration::from_millis(50)));
        assert_eq!(race([500, 20]).await, (1, Duration::from_millis(120)));
        assert_eq!(race([110, 20]).await, (0, Duration::from_millis(110)));
    }
}
