//! Encodes replacements under way as rows and decodes them, so that the next owner of a cluster resumes them.

use cluster::replacement::{RecordedReplacement, ReplacementWait, ReplacementsRead};
use cluster::{Replacement, Target};
use controller::Event;
use model::disruption_policy::DisruptionReason;
use model::{ClaimName, Millis, PodKey, PoolName, Timestamp};

use store::lease::OpenOperations;
use store::replacements::{BackoffRow, ReplacementRow, ReplacementsEnd};

/// The row of a replacement that a decision of `at` records.
pub fn encode(one: &RecordedReplacement, at: Timestamp) -> ReplacementRow {
    let place = |(pod, target): &(PodKey, Target)| (pod.to_string(), encode_place(target));
    ReplacementRow {
        claim: one.claim.to_string(),
        pool: one.pool.to_string(),
        reason: one.begun.reason.as_str().to_owned(),
        moves_pods: one.begun.moves_pods,
        places: one.places.iter().map(place).collect(),
        begun_ago_ms: at.duration_since(one.begun.since).get(),
    }
}

/// What changes when replacements end at `at`.
pub fn encode_end(
    claims: &[ClaimName],
    waits: Vec<(PoolName, Option<ReplacementWait>)>,
    at: Timestamp,
) -> ReplacementsEnd {
    let mut end = ReplacementsEnd { claims: claims.iter().map(ToString::to_string).collect(), ..Default::default() };
    for (pool, wait) in waits {
        let pool = pool.to_string();
        match wait {
            Some(ReplacementWait { wait, until }) => {
                let left_ms = until.duration_since(at).get();
                end.backoffs.push(BackoffRow { pool, wait_ms: wait.get(), left_ms });
            }
            None => end.ended_backoffs.push(pool),
        }
    }
    end
}

/// The replacements that the previous owner recorded for a cluster whose lease was granted. Unreadable rows are left
/// out: their machines are selected again.
pub(crate) fn loaded_event(open: &OpenOperations, now: Timestamp) -> Option<Event> {
    if open.replacements.is_empty() && open.backoffs.is_empty() {
        return None;
    }
    let wait = |row: &BackoffRow| {
        let wait = ReplacementWait { wait: Millis::new(row.wait_ms), until: now + Millis::new(row.left_ms) };
        (row.pool.as_str().into(), wait)
    };
    let read = ReplacementsRead {
        replacements: open.replacements.iter().filter_map(|row| decode(row, now)).collect(),
        waits: open.backoffs.iter().map(wait).collect(),
    };
    Some(Event::ReplacementsLoaded(Box::new(read)))
}

fn decode(row: &ReplacementRow, now: Timestamp) -> Option<RecordedReplacement> {
    use DisruptionReason::{Drifted, Empty, Underutilized, Unhealthy};
    let reason = [Unhealthy, Empty, Drifted, Underutilized].into_iter().find(|one| one.as_str() == row.reason)?;
    let since = now - Millis::new(row.begun_ago_ms);
    let place = |(pod, place): &(String, String)| Some((decode_pod(pod)?, decode_place(place)?));
    Some(RecordedReplacement {
        claim: row.claim.as_str().into(),
        pool: row.pool.as_str().into(),
        begun: Replacement { reason, since, moves_pods: row.moves_pods },
        places: row.places.iter().filter_map(place).collect(),
    })
}

pub(crate) fn encode_place(target: &Target) -> String {
    match target {
        Target::Claim(claim) => format!("NodeClaim/{claim}"),
        Target::Node(node) => format!("Node/{node}"),
    }
}

pub(crate) fn decode_place(place: &str) -> Option<Target> {
    match place.split_once('/')? {
        ("NodeClaim", name) => Some(Target::Claim(name.into())),
        ("Node", name) => Some(Target::Node(name.into())),
        _ => None,
    }
}

fn decode_pod(pod: &str) -> Option<PodKey> {
    let (namespace, name) = pod.split_once('/')?;
    Some(PodKey { namespace: namespace.into(), name: name.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn recorded(reason: DisruptionReason, since: i64) -> RecordedReplacement {
        let pod = |name: &str| PodKey { namespace: "shop".into(), name: name.into() };
        RecordedReplacement {
            claim: "m-1".into(),
            pool: "default".into(),
            begun: Replacement { reason, since: at(since), moves_pods: true },
            places: vec![
                (pod("web-1"), Target::Claim("new-1".into())),
                (pod("web-2"), Target::Node("ip-10-0-0-1.ec2.internal".into())),
            ],
        }
    }

    fn loaded(open: OpenOperations, now: i64) -> Option<ReplacementsRead> {
        match loaded_event(&open, at(now)) {
            Some(Event::ReplacementsLoaded(read)) => Some(*read),
            other => other.map(|event| panic!("{event:?}")),
        }
    }

    /// The row is written 20 s after the replacement began. Another clock, 1,000 s ahead, reads it 7 s later.
    #[test]
    fn a_replacement_goes_on_since_the_same_time_by_a_clock_that_differs() {
        for reason in [DisruptionReason::Drifted, DisruptionReason::Underutilized, DisruptionReason::Unhealthy] {
            let row = encode(&recorded(reason, 100), at(120));
            assert_eq!(row.begun_ago_ms, 20_000);
            let row = ReplacementRow { begun_ago_ms: 27_000, ..row };
            let open = OpenOperations { replacements: vec![row], ..OpenOperations::default() };
            let read = loaded(open, 1_127).unwrap();
            assert_eq!(read.replacements, [recorded(reason, 1_100)]);
        }
    }

    #[test]
    fn the_waits_of_pools_are_read_as_they_were_written() {
        let wait = ReplacementWait { wait: Millis::from_mins(4), until: at(300) };
        let end = encode_end(&["m-1".into()], vec![("a".into(), Some(wait)), ("b".into(), None)], at(120));
        let row = BackoffRow { pool: "a".to_owned(), wait_ms: 240_000, left_ms: 180_000 };
        let (claims, ended_backoffs) = (vec!["m-1".to_owned()], vec!["b".to_owned()]);
        assert_eq!(end, ReplacementsEnd { claims, backoffs: vec![row.clone()], ended_backoffs });
        let open = OpenOperations { backoffs: vec![row], ..OpenOperations::default() };
        assert_eq!(loaded(open, 120).unwrap().waits, [("a".into(), wait)]);
    }

    #[test]
    fn rows_of_another_program_are_left_out() {
        let row =
            ReplacementRow { reason: "Unknown".to_owned(), ..encode(&recorded(DisruptionReason::Drifted, 0), at(0)) };
        let open = OpenOperations { replacements: vec![row], ..OpenOperations::default() };
        assert_eq!(loaded(open, 0), Some(ReplacementsRead::default()));
        assert_eq!(loaded(OpenOperations::default(), 0), None);
    }
}
