//! What machines have cost, as sums of the stored intervals.

use std::collections::{BTreeMap, BTreeSet};

use cost::{CostInterval, CostParts};
use fleetwright_proto::v1;
use prost_types::Timestamp as ProtoTimestamp;
use store::clock;
use store::spend::{DAY_MS, HOUR_MS, HOURS_KEPT_DAYS, IntervalFilter, SpendGroup, SpendPeriod, SpendQuery, SpendRow};
use tonic::Status;

use super::access::Access;
use super::api::FleetApi;
use super::encode;
use super::stored_lists::{StartToken, page_size};
use api_messages::errors::{self, store_failed};
use api_messages::{enum_values, resource_names as names};

/// Periods of a report at most.
const MAX_PERIODS: i64 = 1_000;

/// Default and greatest number of groups.
const GROUPS: (usize, usize) = (20, 1_000);

/// A time from whole periods to whole periods, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
}

impl Span {
    /// From `start`, or `default_ms` before the end, until `end`, or until now.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it does not begin before its end.
    pub(super) fn read(
        start: Option<&ProtoTimestamp>,
        end: Option<&ProtoTimestamp>,
        default_ms: i64,
        now_ms: i64,
    ) -> Result<Self, Status> {
        let to_ms = end.map_or(now_ms, api_messages::to_millis).min(now_ms);
        let from_ms = start.map_or(to_ms.saturating_sub(default_ms), api_messages::to_millis).max(0);
        if from_ms >= to_ms {
            let sentence =
                "start_time is not before end_time, or not before now: a report is about a time that has begun";
            return Err(errors::invalid_argument("start_time", sentence));
        }
        Ok(Self { from_ms, to_ms })
    }

    /// The same from the beginning of a period to the end of one. Costs of more than a week ago are kept by the day.
    fn whole(self, period: SpendPeriod, now_ms: i64) -> Self {
        let kept_by_hour = now_ms - now_ms.rem_euclid(DAY_MS) - HOURS_KEPT_DAYS * DAY_MS;
        let length = |at: i64| match period {
            SpendPeriod::Day => DAY_MS,
            _ if at < kept_by_hour => DAY_MS,
            _ => HOUR_MS,
        };
        let from_ms = self.from_ms - self.from_ms.rem_euclid(length(self.from_ms));
        let rest = self.to_ms.rem_euclid(length(self.to_ms));
        let to_ms = if rest == 0 { self.to_ms } else { self.to_ms - rest + length(self.to_ms) };
        Self { from_ms, to_ms }
    }
}

impl FleetApi {
    pub(super) async fn compute_spend_now(
        &self,
        request: v1::ComputeSpendRequest,
        access: &Access,
    ) -> Result<v1::ComputeSpendResponse, Status> {
        let read = self.spend(request.clone(), access);
        self.shared_answers.spend.get_or_read(&request, &access.clusters, read).await
    }

    async fn spend(
        &self,
        request: v1::ComputeSpendRequest,
        access: &Access,
    ) -> Result<v1::ComputeSpendResponse, Status> {
        let now_ms = clock::now().as_millis();
        let period = match v1::SpendPeriod::try_from(request.period) {
            Ok(v1::SpendPeriod::Unspecified) => SpendPeriod::Whole,
            Ok(v1::SpendPeriod::Hour) => SpendPeriod::Hour,
            Ok(v1::SpendPeriod::Day) => SpendPeriod::Day,
            Err(_) => {
                return Err(errors::invalid_argument("period", format!("period {} is not known", request.period)));
            }
        };
        let asked = Span::read(request.start_time.as_ref(), request.end_time.as_ref(), DAY_MS, now_ms)?;
        let span = asked.whole(period, now_ms);
        let length = period.length_ms().unwrap_or(i64::MAX);
        if (span.to_ms - span.from_ms) / length > MAX_PERIODS {
            let message = format!("the report has more than {MAX_PERIODS} periods: shorten the time, or ask for days");
            return Err(errors::invalid_argument("period", message));
        }
        let max_groups = match usize::try_from(request.max_groups) {
            Ok(0) => GROUPS.0,
            Ok(count) => count.min(GROUPS.1),
            Err(_) => return Err(errors::invalid_argument("max_groups", "max_groups must not be negative")),
        };
        let group = group(request.group_by)?;
        let clusters = self.stored_clusters(&request.parent, access).await?;
        let query = SpendQuery { clusters, from_ms: span.from_ms, to_ms: span.to_ms, period, group };
        let rows = self.store.spend(&query).await.map_err(store_failed)?;
        Ok(report(rows, Span { to_ms: span.to_ms.min(now_ms), ..span }, max_groups))
    }

    pub(super) async fn list_cost_intervals_now(
        &self,
        request: v1::ListCostIntervalsRequest,
        access: &Access,
    ) -> Result<v1::ListCostIntervalsResponse, Status> {
        let cluster = names::parse_cluster(&request.parent)?;
        self.source(&cluster, access).await?;
        let now_ms = clock::now().as_millis();
        let (after, span) = match StartToken::read(&request.page_token, &request.parent)? {
            // The pages of a list that ends now end at the same time.
            Some(token) => (Some((token.start_ms, token.name)), Span { from_ms: token.from_ms, to_ms: token.to_ms }),
            None => {
                let asked = Span::read(request.start_time.as_ref(), request.end_time.as_ref(), DAY_MS, now_ms)?;
                (None, asked.whole(SpendPeriod::Hour, now_ms))
            }
        };
        let limit = page_size(request.page_size)?;
        let filter = IntervalFilter {
            cluster: cluster.to_string(),
            from_ms: span.from_ms,
            to_ms: span.to_ms,
            after,
            limit: limit + 1,
        };
        let mut rows = self.store.cost_intervals(&filter).await.map_err(store_failed)?;
        let is_last = rows.len() <= limit as usize;
        rows.truncate(limit as usize);
        let next = rows.last().filter(|_| !is_last).map(|last| StartToken {
            from_ms: span.from_ms,
            to_ms: span.to_ms,
            start_ms: last.start.as_millis(),
            name: last.machine.claim.to_string(),
        });
        Ok(v1::ListCostIntervalsResponse {
            cost_intervals: rows.iter().map(|row| interval(&cluster, row)).collect(),
            next_page_token: next.map(|token| token.write(&request.parent)).unwrap_or_default(),
        })
    }

    /// The clusters that `parent` names; `None` for all that have costs, also those that were forgotten. A client that is
    /// confined gets those of its clusters that exist.
    ///
    /// # Errors
    /// `NOT_FOUND` if the cluster does not exist.
    pub(super) async fn stored_clusters(&self, parent: &str, access: &Access) -> Result<Option<Vec<String>>, Status> {
        let only = if parent.is_empty() { None } else { names::parse_parent(parent)? };
        let Some(cluster) = only else {
            if access.clusters.is_of_all() {
                return Ok(None);
            }
            let stored = self.store.clusters().await.map_err(store_failed)?;
            return Ok(Some(stored.into_iter().filter(|cluster| access.clusters.allows(cluster)).collect()));
        };
        self.source(&cluster, access).await?;
        Ok(Some(vec![cluster.to_string()]))
    }
}

fn group(by: i32) -> Result<SpendGroup, Status> {
    Ok(match v1::CostGroup::try_from(by) {
        Ok(v1::CostGroup::Unspecified) => SpendGroup::None,
        Ok(v1::CostGroup::Cluster) => SpendGroup::Cluster,
        Ok(v1::CostGroup::Pool) => SpendGroup::Pool,
        Ok(v1::CostGroup::CapacityType) => SpendGroup::CapacityType,
        Ok(v1::CostGroup::InstanceType) => SpendGroup::InstanceType,
        Ok(v1::CostGroup::Zone) => SpendGroup::Zone,
        Err(_) => return Err(errors::invalid_argument("group_by", format!("group_by {by} is not known"))),
    })
}

/// What is summed of a group in a period.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    machine_ms: i64,
    parts: CostParts,
}

impl Sum {
    fn add(&mut self, row: &SpendRow) {
        self.machine_ms += row.machine_ms;
        self.parts += row.parts;
    }
}

/// The report of `rows` with `max_groups` groups at most.
fn report(rows: Vec<SpendRow>, span: Span, max_groups: usize) -> v1::ComputeSpendResponse {
    let (mut total, mut groups) = (Sum::default(), BTreeMap::<String, i64>::new());
    for row in &rows {
        total.add(row);
        *groups.entry(group_name(row)).or_default() += row.parts.total();
    }
    let mut ranked: Vec<(i64, String)> = groups.into_iter().map(|(name, amount)| (-amount, name)).collect();
    ranked.sort_unstable();
    let others: BTreeSet<String> =
        ranked.split_off(ranked.len().min(max_groups)).into_iter().map(|(_, name)| name).collect();
    let ranks: BTreeMap<String, usize> = ranked.into_iter().enumerate().map(|(rank, (_, name))| (name, rank)).collect();
    // By period and rank; all others are last.
    let mut sums = BTreeMap::<(i64, usize, String), Sum>::new();
    for row in &rows {
        let name = group_name(row);
        let key = match ranks.get(&name) {
            Some(rank) => (row.period_ms, *rank, name),
            None => (row.period_ms, usize::MAX, String::new()),
        };
        sums.entry(key).or_default().add(row);
    }
    let sum = |((period_ms, _, group), sum): ((i64, usize, String), Sum)| v1::SpendSum {
        start_time: Some(api_messages::from_millis(period_ms)),
        group,
        amount_micro_usd: sum.parts.total(),
        machine_seconds: sum.machine_ms / 1_000,
        breakdown: Some(encode::breakdown(&sum.parts)),
    };
    v1::ComputeSpendResponse {
        sums: sums.into_iter().map(sum).collect(),
        start_time: Some(api_messages::from_millis(span.from_ms)),
        end_time: Some(api_messages::from_millis(span.to_ms)),
        amount_micro_usd: total.parts.total(),
        machine_seconds: total.machine_ms / 1_000,
        breakdown: Some(encode::breakdown(&total.parts)),
        other_group_count: i32::try_from(others.len()).unwrap_or(i32::MAX),
    }
}

/// The group's name: of what belongs to a cluster, that of the resource.
fn group_name(row: &SpendRow) -> String {
    match (row.cluster.as_str(), row.group.as_str()) {
        ("", group) => group.to_owned(),
        (cluster, "") => names::cluster(cluster),
        (cluster, pool) => names::child(cluster, "pools", pool),
    }
}

fn interval(cluster: &str, interval: &CostInterval) -> v1::CostInterval {
    let machine = &interval.machine;
    v1::CostInterval {
        name: names::child(cluster, "costIntervals", &format!("{}.{}", machine.claim, interval.start.as_millis())),
        node_claim: machine.claim.to_string(),
        pool: machine.pool.to_string(),
        provider_id: machine.provider_id.to_string(),
        instance_type: machine.instance_type.to_string(),
        zone: machine.zone.to_string(),
        capacity_type: enum_values::capacity_type(machine.capacity_type.as_str()).into(),
        start_time: Some(api_messages::timestamp(interval.start)),
        end_time: Some(api_messages::timestamp(interval.end)),
        price_micro_usd_per_hour: machine.price.0,
        amount_micro_usd: interval.parts.total(),
        breakdown: Some(encode::breakdown(&interval.parts)),
    }
}

#[cfg(test)]
mod tests {
    use cost::CostCause;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const NOON: i64 = 30 * DAY_MS + 12 * HOUR_MS;

    fn at(ms: i64) -> Option<ProtoTimestamp> {
        Some(api_messages::from_millis(ms))
    }

    #[test]
    fn a_report_is_about_whole_periods_of_a_time_that_has_begun() {
        let read = |start: Option<i64>, end: Option<i64>| {
            let (start, end) = (start.and_then(at), end.and_then(at));
            Span::read(start.as_ref(), end.as_ref(), DAY_MS, NOON + 60_000)
        };
        let span = read(None, None).unwrap();
        assert_eq!((span.from_ms, span.to_ms), (NOON + 60_000 - DAY_MS, NOON + 60_000));
        let hours = span.whole(SpendPeriod::Hour, NOON);
        assert_eq!((hours.from_ms, hours.to_ms), (NOON - DAY_MS, NOON + HOUR_MS));
        let days = span.whole(SpendPeriod::Day, NOON);
        assert_eq!((days.from_ms / DAY_MS, days.to_ms / DAY_MS), (29, 31));
        // What is older than a week is kept by the day.
        let old = read(Some(NOON - 9 * DAY_MS), Some(NOON - 8 * DAY_MS)).unwrap().whole(SpendPeriod::Hour, NOON);
        assert_eq!((old.from_ms / DAY_MS, old.to_ms / DAY_MS), (21, 23));
        for (start, end) in [(Some(NOON + HOUR_MS), None), (Some(5), Some(5)), (Some(6), Some(5))] {
            assert!(read(start, end).is_err(), "{start:?} {end:?}");
        }
    }

    fn row(period: i64, cluster: &str, group: &str, useful: i64) -> SpendRow {
        SpendRow {
            period_ms: period * HOUR_MS,
            cluster: cluster.to_owned(),
            group: group.to_owned(),
            machine_ms: 1_000,
            parts: CostParts::of(CostCause::Useful, useful),
        }
    }

    #[test]
    fn groups_that_cost_most_in_the_whole_time_are_first_and_others_are_one_sum() {
        let rows =
            vec![row(0, "a", "p", 5), row(0, "b", "p", 7), row(0, "c", "", 1), row(1, "a", "p", 3), row(1, "d", "", 2)];
        let spend = report(rows, Span { from_ms: 0, to_ms: 2 * HOUR_MS }, 2);
        let brief = |sum: &v1::SpendSum| {
            (api_messages::to_millis(&sum.start_time.unwrap()) / HOUR_MS, sum.group.clone(), sum.amount_micro_usd)
        };
        let expected = [
            (0, "clusters/a/pools/p".to_owned(), 5),
            (0, "clusters/b/pools/p".to_owned(), 7),
            (0, String::new(), 1),
            (1, "clusters/a/pools/p".to_owned(), 3),
            (1, String::new(), 2),
        ];
        assert_eq!(spend.sums.iter().map(brief).collect::<Vec<_>>(), expected);
        assert_eq!((spend.amount_micro_usd, spend.machine_seconds, spend.other_group_count), (18, 5, 2));
    }

    proptest! {
        /// Sums add up to the whole, whatever the groups.
        #[test]
        fn sums_add_up_to_the_whole(
            rows in vec((0..5_i64, 0..4_usize, 0..4_usize, 0..1_000_i64), 0..50),
            max_groups in 1..20_usize,
        ) {
            let rows: Vec<SpendRow> = rows.into_iter()
                .map(|(period, cluster, group, useful)| row(period, ["", "a", "b", "c"][cluster], ["", "x", "y", "z"][group], useful))
                .collect();
            let spend = report(rows, Span { from_ms: 0, to_ms: 5 * HOUR_MS }, max_groups);
            prop_assert_eq!(spend.sums.iter().map(|sum| sum.amount_micro_usd).sum::<i64>(), spend.amount_micro_usd);
            prop_assert_eq!(spend.sums.iter().map(|sum| sum.breakdown.unwrap().useful).sum::<i64>(), spend.amount_micro_usd);
            prop_assert_eq!(spend.sums.iter().map(|sum| sum.machine_seconds).sum::<i64>(), spend.machine_seconds);
        }
    }
}
