//! Questions about notices, asked for many clusters at once: a storm names thousands of instances in a minute, and the
//! account answers some twenty calls a second.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cloud::notice::Notice;
use cloud::provider::CloudError;
use model::Text;
use model::interruption::InterruptionKind;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

/// Most instances of one call (EC2: values of a filter).
const MOST_AT_ONCE: usize = 200;

/// Id of an instance, and what a notice says of it.
type Asked = (Text, InterruptionKind);
type Answer = Result<Vec<Notice>, CloudError>;

/// One call is under way at a time; what is asked meanwhile goes with the next.
#[derive(Debug, Default)]
pub(crate) struct NoticeQuestions {
    waiting: Mutex<Vec<PendingRequest>>,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct PendingRequest {
    asked: Vec<Asked>,
    answer: oneshot::Sender<Answer>,
}

impl NoticeQuestions {
    /// The notices that `call` finds of the instances in `asked`, which it is given together with others.
    pub(crate) async fn ask<F>(&self, asked: &[Asked], call: impl Fn(Vec<Asked>) -> F) -> Answer
    where
        F: Future<Output = Answer>,
    {
        let mut answer = self.queue(asked);
        let _turn = self.turn.lock().await;
        loop {
            match answer.try_recv() {
                Ok(answer) => return answer,
                // The future that had taken the question was dropped during its call.
                Err(TryRecvError::Closed) => answer = self.queue(asked),
                Err(TryRecvError::Empty) => {}
            }
            let questions = self.next();
            let all = questions.iter().flat_map(|question| question.asked.iter().cloned()).collect();
            let found = call(all).await;
            for PendingRequest { asked, answer } in questions {
                let is_of = |notice: &&Notice| asked.iter().any(|(instance, _)| *instance == notice.instance);
                let own = found.as_ref().map(|found| found.iter().filter(is_of).cloned().collect());
                // The asking future may have been dropped meanwhile.
                let _received = answer.send(own.map_err(CloudError::clone));
            }
        }
    }

    fn queue(&self, asked: &[Asked]) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        self.waiting().push(PendingRequest { asked: asked.to_vec(), answer });
        receiver
    }

    /// The oldest questions, as many as one call can have and at least one.
    fn next(&self) -> Vec<PendingRequest> {
        let mut waiting = self.waiting();
        waiting.retain(|question| !question.answer.is_closed());
        let mut instances = 0;
        let fits = waiting.iter().take_while(|question| {
            instances += question.asked.len();
            instances <= MOST_AT_ONCE
        });
        let count = fits.count().max(1).min(waiting.len());
        waiting.drain(..count).collect()
    }

    /// Each change is one call of `Vec`, so a poisoned lock holds a valid list.
    fn waiting(&self) -> MutexGuard<'_, Vec<PendingRequest>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use model::Timestamp;
    use tokio::task::JoinSet;

    use super::*;

    fn asked(number: usize) -> Vec<Asked> {
        vec![(format!("i-{number}").into(), InterruptionKind::SpotInterrupted)]
    }

    /// What the cloud says of each instance that it is asked about.
    fn notices(asked: &[Asked]) -> Vec<Notice> {
        let notice = |(instance, kind): &Asked| Notice {
            instance: instance.clone(),
            kind: *kind,
            sent: Timestamp::from_millis(0),
            ends: None,
        };
        asked.iter().map(notice).collect()
    }

    #[tokio::test]
    async fn what_is_asked_during_a_call_goes_with_the_next() {
        let (questions, calls) = (Arc::new(NoticeQuestions::default()), Arc::new(AtomicUsize::new(0)));
        let mut clusters = JoinSet::new();
        for number in 0..1_000 {
            let (questions, calls) = (Arc::clone(&questions), Arc::clone(&calls));
            clusters.spawn(async move {
                let calls = &*calls;
                let call = |all: Vec<Asked>| async move {
                    assert!(all.len() <= MOST_AT_ONCE, "{} instances in one call", all.len());
                    calls.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    Ok(notices(&all))
                };
                assert_eq!(questions.ask(&asked(number), call).await, Ok(notices(&asked(number))));
            });
        }
        while let Some(ended) = clusters.join_next().await {
            ended.expect("an answer");
        }
        // The first alone, then the other 999 by 200.
        assert_eq!(calls.load(Ordering::Relaxed), 6);
    }

    #[tokio::test]
    async fn a_question_whose_call_was_dropped_is_asked_again() {
        let questions = NoticeQuestions::default();
        let hangs = |_: Vec<Asked>| std::future::pending::<Answer>();
        let [a, b, c] = [0, 1, 2].map(asked);
        let mut first = Box::pin(questions.ask(&a, hangs));
        let mut second = Box::pin(questions.ask(&b, hangs));
        let mut third = Box::pin(questions.ask(&c, |all| std::future::ready(Ok(notices(&all)))));
        // The first call has its own question alone; that of the second has those of the second and the third.
        for waiting in [&mut first, &mut second] {
            assert!(tokio::time::timeout(Duration::ZERO, waiting).await.is_err());
        }
        assert!(tokio::time::timeout(Duration::ZERO, &mut third).await.is_err());
        drop(first);
        assert!(tokio::time::timeout(Duration::ZERO, &mut second).await.is_err());
        drop(second);
        assert_eq!(third.await, Ok(notices(&c)));
    }

    #[tokio::test]
    async fn a_failure_is_the_answer_to_the_question() {
        let questions = NoticeQuestions::default();
        let failed = Err(CloudError::RequestLimitExceeded { retry_after_ms: 7 });
        assert_eq!(questions.ask(&asked(2), |_| std::future::ready(failed.clone())).await, failed);
    }
}
