//! What decisions were to save, and what they have saved a day later.

use std::collections::BTreeMap;

use cost::{CostInterval, Saving};
use fleetwright_proto::v1;
use model::Timestamp;
use store::clock;
use store::spend::DAY_MS;
use tonic::Status;

use super::access::Access;
use super::api::FleetApi;
use super::spend::Span;
use api_messages::errors::{self, store_failed};
use api_messages::resource_names as names;

/// Default and greatest number of decisions.
const DECISIONS: (usize, usize) = (100, 1_000);

/// The longest time of a report: the intervals of all machines of its decisions are read.
const MAX_DAYS: i64 = 31;

impl FleetApi {
    pub(super) async fn compute_savings_now(
        &self,
        request: v1::ComputeSavingsRequest,
        access: &Access,
    ) -> Result<v1::ComputeSavingsResponse, Status> {
        let read = self.savings(request.clone(), access);
        self.shared_answers.savings.get_or_read(&request, &access.clusters, read).await
    }

    async fn savings(
        &self,
        request: v1::ComputeSavingsRequest,
        access: &Access,
    ) -> Result<v1::ComputeSavingsResponse, Status> {
        let now = clock::now();
        let span = Span::read(request.start_time.as_ref(), request.end_time.as_ref(), 7 * DAY_MS, now.as_millis())?;
        if span.to_ms - span.from_ms > MAX_DAYS * DAY_MS {
            return Err(errors::invalid_argument(
                "start_time",
                format!("a report of savings is about {MAX_DAYS} days at most"),
            ));
        }
        let limit = match usize::try_from(request.max_decisions) {
            Ok(0) => DECISIONS.0,
            Ok(count) => count.min(DECISIONS.1),
            Err(_) => return Err(errors::invalid_argument("max_decisions", "max_decisions must not be negative")),
        };
        let clusters = self.stored_clusters(&request.parent, access).await?;
        let read = self.store.saving_intervals(clusters.as_deref(), span.from_ms, span.to_ms);
        let mut of_clusters = BTreeMap::<String, Vec<CostInterval>>::new();
        for (cluster, interval) in read.await.map_err(store_failed)? {
            of_clusters.entry(cluster).or_default().push(interval);
        }
        let is_asked = |saving: &Saving| (span.from_ms..span.to_ms).contains(&saving.at.as_millis());
        let savings = of_clusters.iter().flat_map(|(cluster, intervals)| {
            let asked = cost::savings(intervals).into_iter().filter(is_asked);
            asked.map(|saving| encode_saving(cluster, &saving, now))
        });
        Ok(report(savings.collect(), span, limit))
    }
}

fn encode_saving(cluster: &str, saving: &Saving, now: Timestamp) -> v1::Saving {
    let state = match saving {
        // What has ended cannot be realised any more, however long one waits.
        saving if saving.is_overtaken => v1::SavingState::Overtaken,
        saving if saving.ends() <= now => v1::SavingState::Realised,
        _ => v1::SavingState::Pending,
    };
    let is_over = saving.ends() <= now;
    v1::Saving {
        decision: names::child(cluster, "decisions", &saving.number.to_string()),
        decide_time: Some(api_messages::timestamp(saving.at)),
        state: state.into(),
        removed_count: i32::try_from(saving.removed).unwrap_or(i32::MAX),
        launched_count: i32::try_from(saving.launched).unwrap_or(i32::MAX),
        removed_micro_usd: saving.removed_cost,
        predicted_micro_usd: saving.predicted(),
        realised_micro_usd: if is_over { saving.realised() } else { 0 },
        bought_later_count: i32::try_from(saving.bought_later).unwrap_or(i32::MAX),
        bought_later_micro_usd: saving.bought_later_cost,
    }
}

fn report(mut savings: Vec<v1::Saving>, span: Span, limit: usize) -> v1::ComputeSavingsResponse {
    let mut sums = BTreeMap::<i32, v1::SavingSum>::new();
    for saving in &savings {
        let sum = sums.entry(saving.state).or_default();
        sum.state = saving.state;
        sum.decision_count += 1;
        sum.removed_micro_usd += saving.removed_micro_usd;
        sum.predicted_micro_usd += saving.predicted_micro_usd;
        sum.realised_micro_usd += saving.realised_micro_usd;
    }
    let missed = |saving: &v1::Saving| saving.predicted_micro_usd - saving.realised_micro_usd;
    let is_realised = |saving: &v1::Saving| saving.state() == v1::SavingState::Realised;
    savings.sort_by(|one, other| {
        let key = |of: &v1::Saving| (!is_realised(of), -missed(of), of.decision.clone());
        key(one).cmp(&key(other))
    });
    savings.truncate(limit);
    v1::ComputeSavingsResponse {
        savings,
        sums: sums.into_values().collect(),
        start_time: Some(api_messages::from_millis(span.from_ms)),
        end_time: Some(api_messages::from_millis(span.to_ms)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saving(number: u64, hours: i64, spent: i64, is_overtaken: bool) -> Saving {
        let at = Timestamp::from_millis(hours * 3_600_000);
        Saving {
            number,
            at,
            removed: 2,
            launched: 1,
            removed_cost: 100,
            launched_cost: 40,
            spent,
            bought_later: 0,
            bought_later_cost: 0,
            is_overtaken,
        }
    }

    #[test]
    fn decisions_that_miss_their_prediction_are_first_and_sums_are_of_all() {
        let now = Timestamp::from_millis(50 * 3_600_000);
        let all =
            [saving(1, 10, 45, false), saving(2, 11, 70, false), saving(3, 30, 5, false), saving(4, 12, 50, true)];
        let rows = all.iter().map(|saving| encode_saving("a", saving, now)).collect();
        let savings = report(rows, Span { from_ms: 0, to_ms: 1 }, 3);
        let brief =
            |one: &v1::Saving| (one.decision.clone(), one.state(), one.predicted_micro_usd, one.realised_micro_usd);
        use v1::SavingState::{Overtaken, Pending, Realised};
        let expected = [
            ("clusters/a/decisions/2".to_owned(), Realised, 60, 30),
            ("clusters/a/decisions/1".to_owned(), Realised, 60, 55),
            ("clusters/a/decisions/3".to_owned(), Pending, 60, 0),
        ];
        assert_eq!(savings.savings.iter().map(brief).collect::<Vec<_>>(), expected);
        let sums = savings.sums.iter().map(|sum| {
            (sum.state(), sum.decision_count, sum.removed_micro_usd, sum.predicted_micro_usd, sum.realised_micro_usd)
        });
        let expected = [(Pending, 1, 100, 60, 0), (Realised, 2, 200, 120, 85), (Overtaken, 1, 100, 60, 50)];
        assert_eq!(sums.collect::<Vec<_>>(), expected);
    }
}
