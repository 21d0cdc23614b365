//! How commands name a decision: by its number, by the last digits of it, or as the latest one.

use std::str::FromStr;

use client::archive::failed;
use command::exit::Failure;
use decision_log::replay_all;
use store::Archive;
use store::lease::Scope;
use store::log::StoredDecision;

/// Number of decisions, latest first, that are searched for last digits.
const SEARCHED: usize = 1_000;

/// A decision as the operator names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DecisionReference {
    /// The latest one.
    Last,
    /// The number, or its last digits.
    Digits(String),
}

impl FromStr for DecisionReference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "last" => Ok(Self::Last),
            digits if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Ok(Self::Digits(digits.to_owned()))
            }
            _ => Err("write the number of a decision, its last digits, or last".to_owned()),
        }
    }
}

impl DecisionReference {
    /// The number of the decision in `store`, of `cluster` if given. The last one is the latest that
    /// `is_meant` accepts.
    ///
    /// # Errors
    /// No decision or several are meant, or the store failed.
    pub(super) async fn number(
        &self,
        store: &dyn Archive,
        cluster: Option<&str>,
        is_meant: impl Fn(&StoredDecision) -> bool,
    ) -> Result<u64, Failure> {
        let scope = cluster.map(Scope::cluster);
        match self {
            Self::Last => {
                let latest = replay_all::read(store, scope, SEARCHED, |_| true).await.map_err(failed)?;
                let number = latest.iter().find(|stored| is_meant(stored)).map(|stored| stored.decision.number);
                number.ok_or_else(|| {
                    Failure::refused("the store has no such decision yet; `fleetwright history` lists the stored ones")
                })
            }
            Self::Digits(digits) => {
                let exact = digits.parse().ok();
                if let Some(number) = exact
                    && !store.decision(number).await.map_err(failed)?.is_empty()
                {
                    return Ok(number);
                }
                let latest = replay_all::read(store, scope, SEARCHED, |_| true).await.map_err(failed)?;
                with_end(&latest, digits)
            }
        }
    }
}

/// The number of the only decision whose number ends with `digits`.
fn with_end(latest: &[StoredDecision], digits: &str) -> Result<u64, Failure> {
    let numbers = latest.iter().map(|stored| stored.decision.number);
    let mut found: Vec<u64> = numbers.filter(|number| number.to_string().ends_with(digits)).collect();
    // Decisions of several clusters can have one number.
    found.dedup();
    match found[..] {
        [number] => Ok(number),
        [] => Err(Failure::refused(unknown(digits))),
        [first, second, ..] => Err(Failure::refused(format!(
            "the numbers of {} decisions end with {digits}, such as {first} and {second}; write more digits",
            found.len()
        ))),
    }
}

/// Error message for an unknown decision.
pub(super) fn unknown(number: &str) -> String {
    format!("there is no decision {number} in the store; `fleetwright history` lists the stored ones")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use store::Store;
    use store::lease::LeaseOutcome;
    use store::log::{DecisionRow, Entry};
    use store::memory::MemoryStore;

    fn decisions(numbers: &[u64]) -> Vec<StoredDecision> {
        let decision = |number: &u64| StoredDecision {
            scope: Scope::cluster("blue"),
            epoch: 1,
            decision: DecisionRow {
                number: *number,
                decided_at_ms: 0,
                kind: "provision".to_owned(),
                ..DecisionRow::default()
            },
        };
        numbers.iter().map(decision).collect()
    }

    #[test]
    fn a_decision_is_named_by_its_number_or_the_word_last() {
        assert_eq!("last".parse(), Ok(DecisionReference::Last));
        assert_eq!("0423".parse(), Ok(DecisionReference::Digits("0423".to_owned())));
        for text in ["", "latest", "-1", "4 2"] {
            assert!(text.parse::<DecisionReference>().is_err(), "{text:?}");
        }
    }

    #[tokio::test]
    async fn the_last_decision_is_the_latest_that_is_meant() {
        let store = MemoryStore::new();
        let last = |is_meant: fn(&StoredDecision) -> bool| DecisionReference::Last.number(&store, None, is_meant);
        assert!(last(|_| true).await.unwrap_err().messages[0].contains("no such decision yet"));
        let granted = store.acquire_lease(&Scope::cluster("blue"), "a", 0, Duration::from_secs(60)).await.unwrap();
        let LeaseOutcome::Granted { lease, .. } = granted else { panic!("{granted:?}") };
        for stored in decisions(&[7, 8]) {
            let entry = Entry { decision: stored.decision, ..Entry::default() };
            store.record_decision(&lease, &entry).await.unwrap();
        }
        assert_eq!(last(|_| true).await.unwrap(), 8);
        assert_eq!(last(|stored| stored.decision.number != 8).await.unwrap(), 7);
        let by_digits = DecisionReference::Digits("7".to_owned());
        assert_eq!(by_digits.number(&store, Some("blue"), |_| true).await.unwrap(), 7);
    }

    #[test]
    fn last_digits_name_a_decision_if_they_are_unique() {
        let latest = decisions(&[7_223_372_036_854_775, 7_223_372_036_850_775, 7_223_372_036_854_001]);
        assert_eq!(with_end(&latest, "4775").unwrap(), 7_223_372_036_854_775);
        assert_eq!(with_end(&latest, "001").unwrap(), 7_223_372_036_854_001);
        let several = with_end(&latest, "775").unwrap_err().messages;
        assert_eq!(
            several,
            [
                "the numbers of 2 decisions end with 775, such as 7223372036854775 and 7223372036850775; write more digits"
            ]
        );
        assert!(with_end(&latest, "999").unwrap_err().messages[0].starts_with("there is no decision 999"));
        // One number in two clusters.
        assert_eq!(with_end(&decisions(&[42, 42]), "2").unwrap(), 42);
    }
}
