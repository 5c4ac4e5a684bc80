//! Readings of the counters that clients export, from settled questions. Pure.

use std::time::Duration;

use hedgerow_tuner::{Counts, Unknown, WindowCounts};

use crate::clock::Moment;
use crate::latency::increase;
use crate::question::{Answers, CountsQuestions, Question, WindowQuestions};

/// The reading. A window in which calls or hedges are not known is left out; when that is every one, the first says why.
pub(crate) fn reading(questions: &CountsQuestions, answers: &Answers, moment: Moment) -> Counts {
    let mut at_ms: Option<i64> = None;
    let mut windows = Vec::new();
    let mut unknown = None;
    for questions in &questions.windows {
        match counted(questions, answers, moment.offset) {
            Ok((counts, counted_ms)) => {
                at_ms = at_ms.max(Some(counted_ms));
                windows.push(counts);
            }
            Err(why) => drop(unknown.get_or_insert(why)),
        }
    }
    Counts {
        at: at_ms.map_or(moment.now(), |server_ms| moment.ours(server_ms)),
        windows: match unknown {
            Some(why) if windows.is_empty() => Err(why),
            _ => Ok(windows),
        },
    }
}

/// What was counted over one window, and when its older half was sampled, in milliseconds on the server's clock.
fn counted(
    questions: &WindowQuestions,
    answers: &Answers,
    offset: Duration,
) -> Result<(WindowCounts, i64), Unknown> {
    let sampled = |question: &Question| answers.settle(question, offset).map(|settled| settled.at_ms);
    let at_ms = sampled(&questions.calls)?.min(sampled(&questions.hedges)?);
    let if_known = |question: &Option<Question>| increase(question.as_ref()?, answers, offset).ok();
    let counts = WindowCounts {
        window: questions.window,
        calls: increase(&questions.calls, answers, offset)?,
        hedges: increase(&questions.hedges, answers, offset)?,
        blocked: if_known(&questions.blocked),
        wins: if_known(&questions.wins),
    };
    Ok((counts, at_ms))
}
