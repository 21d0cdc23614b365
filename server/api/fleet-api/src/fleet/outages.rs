//! What this replica depends on and does not work, as problems.

use std::sync::Arc;

use cloud::catalogue::refreshed::RefreshKind;
use fleetwright_proto::v1;
use model::Timestamp;
use replica::offerings::region_and_account;
use store::lease::Scope;

use super::problem_causes::is_of_region;
use crate::conditions::{CloudAction, Condition, Conditions, Dependency, FailureKind, Severity};
use api_messages::timestamp;

/// What the words of a problem are.
struct Words {
    /// Name of the problem without its collection.
    id: String,
    code: &'static str,
    summary: String,
    consequence: String,
}

/// The problems of what does not work at `now`, causes first.
pub(super) fn problems(conditions: &Conditions, now: Timestamp) -> Vec<v1::Problem> {
    conditions.failing(now).into_iter().map(|condition| problem(condition, conditions)).collect()
}

fn problem(condition: Condition, conditions: &Conditions) -> v1::Problem {
    let Words { id, code, summary, consequence } = words(&condition, conditions);
    let severity = match condition.dependency.severity() {
        Severity::Warning => v1::Severity::Warning,
        Severity::Critical => v1::Severity::Critical,
    };
    v1::Problem {
        name: format!("problems/{id}"),
        severity: severity.into(),
        code: code.to_owned(),
        summary,
        reason: condition.failure.reason,
        start_time: Some(timestamp(condition.since)),
        consequence,
        command: match condition.dependency {
            Dependency::Replica(_) => "fleetwright fleet clusters -o wide".to_owned(),
            _ => String::new(),
        },
        ..v1::Problem::default()
    }
}

fn words(condition: &Condition, conditions: &Conditions) -> Words {
    let since = condition.since.to_string();
    let fleet = |code: &'static str, summary: String, consequence: &str| Words {
        id: code.to_owned(),
        code,
        summary,
        consequence: consequence.to_owned(),
    };
    match &condition.dependency {
        Dependency::Store => fleet(
            "StoreUnavailable",
            format!("the store has not answered, or taken writes, since {since}"),
            "nothing is decided until it does; freezes and refused offerings are not known while it does not answer",
        ),
        Dependency::Leases => fleet(
            "LeasesNotRenewed",
            format!("leases are not renewed since {since}"),
            "nothing is decided once the leases have expired",
        ),
        Dependency::Cloud(scope) => cloud(condition, scope, conditions),
        Dependency::CloudAction(scope, action) => of_scope(
            ("CloudActionDenied", scope, &format!(".{}", action.as_str())),
            |place| format!("the cloud, {place}, has denied the server the action {} since {since}", action.as_str()),
            denied(*action).to_owned(),
        ),
        Dependency::Listing(scope) => of_scope(
            ("ListingOld", scope, ""),
            |place| format!("the instances of {place} were last listed at {since}"),
            "instances that ended or were left behind are not noticed".to_owned(),
        ),
        Dependency::Queue(scope) => of_scope(
            ("QueueUnavailable", scope, ""),
            |place| format!("the queue of interruption notices of {place} has not answered since {since}"),
            "an interrupted node is noticed when its instance has ended".to_owned(),
        ),
        Dependency::Catalogue(scope, kind) => of_scope(
            ("CatalogueOld", scope, &format!(".{}", kind.as_str())),
            |place| format!("the {} of {place} were last read at {since}", part(*kind)),
            "plans are made with the values of then".to_owned(),
        ),
        Dependency::Replica(instance) => replica(instance, &since),
    }
}

/// The cloud's silence, with the age of what is known of its instances.
fn cloud(condition: &Condition, scope: &Scope, conditions: &Conditions) -> Words {
    let since = condition.since;
    let listed = conditions.worked_at(&Dependency::Listing(scope.clone()));
    let listed = listed.map_or_else(|| "none".to_owned(), |at| at.to_string());
    let consequence = format!("nothing can be launched or removed; last listing of the instances: {listed}");
    match condition.failure.kind {
        FailureKind::NoAnswer => of_scope(
            ("CloudUnavailable", scope, ""),
            |place| format!("the cloud, {place}, has not answered since {since}"),
            consequence,
        ),
        FailureKind::Refused => of_scope(
            ("CloudCredentialsRefused", scope, ""),
            |place| format!("the cloud, {place}, has refused the server's credentials since {since}"),
            consequence,
        ),
    }
}

fn replica(instance: &Arc<str>, since: &str) -> Words {
    Words {
        id: format!("ReplicaUnreachable-{instance}"),
        code: "ReplicaUnreachable",
        summary: format!("replica {instance} has not answered since {since}"),
        consequence: "its clusters are shown as they were last".to_owned(),
    }
}

fn of_scope(
    (code, scope, more): (&'static str, &Scope, &str),
    summary: impl FnOnce(&str) -> String,
    consequence: String,
) -> Words {
    let (region, account) = region_and_account(scope);
    let summary = summary(&format!("account {account} and region {region}"));
    Words { id: format!("{code}.{account}.{region}{more}"), code, summary, consequence }
}

/// What follows from an action that is denied.
fn denied(action: CloudAction) -> &'static str {
    match action {
        CloudAction::Launch => "nothing can be launched",
        CloudAction::Terminate => "no instance can be removed, and each goes on to cost",
        CloudAction::Describe => "it is not known whether single instances exist, so their removals wait",
        CloudAction::List => "instances that ended or were left behind are not noticed",
        CloudAction::ReadNotices => "failed status checks and scheduled events of instances are not noticed",
    }
}

fn part(kind: RefreshKind) -> &'static str {
    match kind {
        RefreshKind::InstanceTypes => "instance types",
        RefreshKind::OnDemandPrices => "on-demand prices",
        RefreshKind::SpotPrices => "spot prices",
    }
}

/// The problems of this replica and of the others: one of each name, that which began first. What only another one has names it.
pub(super) fn merged(own: Vec<v1::Problem>, others: Vec<(Arc<str>, Vec<v1::Problem>)>) -> Vec<v1::Problem> {
    let mut all = own;
    for (replica, problems) in others {
        for problem in problems {
            match all.iter_mut().find(|known| known.name == problem.name) {
                Some(known) => {
                    let starts = [&*known, &problem].map(|one| one.start_time.as_ref().map(api_messages::to_millis));
                    if starts[1] < starts[0] {
                        known.start_time = problem.start_time;
                    }
                }
                None => all.push(v1::Problem { reason: format!("replica {replica}: {}", problem.reason), ..problem }),
            }
        }
    }
    all
}

/// Whether the problem concerns the clusters of an account and region.
pub(super) fn concerns(problem: &v1::Problem, region: &str) -> bool {
    ["StoreUnavailable", "LeasesNotRenewed"].contains(&&*problem.code) || is_of_region(problem, region)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Failure;

    const NOW_MS: i64 = 1_800_000_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(NOW_MS + seconds * 1_000)
    }

    fn scope() -> Scope {
        Scope::Region { account: "111122223333".to_owned(), region: "eu-west-1".to_owned() }
    }

    fn lines(conditions: &Conditions, now: Timestamp) -> Vec<String> {
        let line = |problem: &v1::Problem| {
            format!(
                "{} {}: {} ({})",
                problem.severity().as_str_name(),
                problem.name,
                api_messages::notice(problem),
                problem.reason
            )
        };
        problems(conditions, now).iter().map(line).collect()
    }

    #[test]
    fn a_cloud_that_is_away_is_said_with_the_last_listing_and_what_follows() {
        let conditions = Conditions::default();
        let (cloud, listing) = (Dependency::Cloud(scope()), Dependency::Listing(scope()));
        conditions.report(&listing, Ok(()), at(-30));
        conditions.report(&cloud, Ok(()), at(0));
        for second in [1, 2, 4, 8] {
            conditions.report(&cloud, Err(Failure::no_answer("no answer from the cloud to CreateFleet")), at(second));
        }
        // A lost call is no outage.
        assert_eq!(lines(&conditions, at(10)), Vec::<String>::new());
        let expected = "SEVERITY_CRITICAL problems/CloudUnavailable.111122223333.eu-west-1: The cloud, account 111122223333 and \
             region eu-west-1, has not answered since 2027-01-15T08:00:00Z: nothing can be launched or removed; last listing of \
             the instances: 2027-01-15T07:59:30Z. (no answer from the cloud to CreateFleet)";
        assert_eq!(lines(&conditions, at(11)), [expected]);
        conditions.report(&cloud, Ok(()), at(61));
        assert_eq!(lines(&conditions, at(120)), Vec::<String>::new());
    }

    #[test]
    fn each_dependency_has_its_own_words_and_the_worst_are_first() {
        let conditions = Conditions::default();
        let refused = || Err(Failure::refused("AuthFailure"));
        let instance: Arc<str> = "two/1".into();
        for dependency in [
            Dependency::Replica(instance),
            Dependency::Catalogue(scope(), RefreshKind::SpotPrices),
            Dependency::Queue(scope()),
            Dependency::Listing(scope()),
            Dependency::CloudAction(scope(), CloudAction::Terminate),
            Dependency::Cloud(scope()),
            Dependency::Leases,
            Dependency::Store,
        ] {
            conditions.report(&dependency, refused(), at(0));
        }
        let said = |problem: &v1::Problem| (problem.code.clone(), problem.summary.clone());
        let said: Vec<(String, String)> = problems(&conditions, at(60)).iter().map(said).collect();
        let place = "account 111122223333 and region eu-west-1";
        let time = "2027-01-15T08:00:00Z";
        let expected = [
            ("StoreUnavailable", format!("the store has not answered, or taken writes, since {time}")),
            ("LeasesNotRenewed", format!("leases are not renewed since {time}")),
            (
                "CloudCredentialsRefused",
                format!("the cloud, {place}, has refused the server's credentials since {time}"),
            ),
            (
                "CloudActionDenied",
                format!("the cloud, {place}, has denied the server the action terminate since {time}"),
            ),
            ("ListingOld", format!("the instances of {place} were last listed at {time}")),
            ("QueueUnavailable", format!("the queue of interruption notices of {place} has not answered since {time}")),
            ("CatalogueOld", format!("the spot prices of {place} were last read at {time}")),
            ("ReplicaUnreachable", format!("replica two/1 has not answered since {time}")),
        ];
        assert_eq!(said, expected.map(|(code, summary)| (code.to_owned(), summary)));
        assert!(problems(&conditions, at(60)).iter().all(|problem| !problem.consequence.is_empty()));
    }

    #[test]
    fn what_another_replica_says_is_added_and_what_began_earlier_counts() {
        let problem = |name: &str, second: i64| v1::Problem {
            name: name.to_owned(),
            reason: "why".to_owned(),
            start_time: Some(timestamp(at(second))),
            ..v1::Problem::default()
        };
        let others = vec![("two/1".into(), vec![problem("problems/A", -5), problem("problems/B", 3)])];
        let found = merged(vec![problem("problems/A", 0)], others);
        let expected = [
            problem("problems/A", -5),
            v1::Problem { reason: "replica two/1: why".to_owned(), ..problem("problems/B", 3) },
        ];
        assert_eq!(found, expected);
    }
}
