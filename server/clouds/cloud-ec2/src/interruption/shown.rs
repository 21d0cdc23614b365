//! Notices from what EC2 shows of instances itself, which the notices of a queue are compared with.

use aws_sdk_ec2::types::{Instance, InstanceLifecycleType, InstanceStateName, SpotInstanceRequest};
use cloud::notice::Notice;
use model::interruption::InterruptionKind;
use model::{Text, Timestamp};

/// How the codes of spot requests begin whose instance EC2 takes back, or has taken back.
const RECLAIMED: [&str; 3] = ["marked-for-", "instance-terminated-", "instance-stopped-"];
/// How the codes end of those whose owner has terminated or stopped the instance.
const BY_OWNER: &str = "-by-user";

/// What the state of an instance says. EC2 has no call that shows a rebalance recommendation or the warning of a capacity
/// reservation: they are not contradicted where they can be.
pub(crate) fn of_instance(instance: &Instance, now: Timestamp) -> Vec<Notice> {
    let Some(id) = instance.instance_id() else { return Vec::new() };
    let state = match instance.state().and_then(|state| state.name()) {
        Some(InstanceStateName::Stopping | InstanceStateName::Stopped) => Some(InterruptionKind::InstanceStopped),
        Some(InstanceStateName::ShuttingDown | InstanceStateName::Terminated) => {
            Some(InterruptionKind::InstanceTerminated)
        }
        _ => None,
    };
    let possible = match instance.instance_lifecycle() {
        Some(InstanceLifecycleType::Spot) => Some(InterruptionKind::RebalanceRecommendation),
        Some(InstanceLifecycleType::InterruptibleCapacityReservation) => {
            Some(InterruptionKind::CapacityReservationInterrupted)
        }
        _ => None,
    };
    state.into_iter().chain(possible).map(|kind| notice(id, kind, now)).collect()
}

/// What the status of a spot request says of its instance.
pub(crate) fn of_request(request: &SpotInstanceRequest, now: Timestamp) -> Option<Notice> {
    let code = request.status()?.code()?;
    let is_reclaimed = RECLAIMED.iter().any(|prefix| code.starts_with(prefix)) && !code.ends_with(BY_OWNER);
    is_reclaimed.then(|| Some(notice(request.instance_id()?, InterruptionKind::SpotInterrupted, now))).flatten()
}

fn notice(id: &str, kind: InterruptionKind, sent: Timestamp) -> Notice {
    Notice { instance: Text::from(id), kind, sent, ends: None }
}

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::types::{InstanceState, SpotInstanceStatus};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(7);

    fn kinds(state: InstanceStateName, lifecycle: Option<InstanceLifecycleType>) -> Vec<InterruptionKind> {
        let state = InstanceState::builder().name(state).build();
        let instance = Instance::builder().instance_id("i-1").state(state).set_instance_lifecycle(lifecycle).build();
        of_instance(&instance, NOW).into_iter().map(|notice| notice.kind).collect()
    }

    #[test]
    fn the_state_of_an_instance_says_that_it_stops_or_has_ended() {
        use InterruptionKind as Kind;
        for (state, kind) in [
            (InstanceStateName::Stopping, Kind::InstanceStopped),
            (InstanceStateName::Stopped, Kind::InstanceStopped),
            (InstanceStateName::ShuttingDown, Kind::InstanceTerminated),
            (InstanceStateName::Terminated, Kind::InstanceTerminated),
        ] {
            assert_eq!(kinds(state.clone(), None), [kind], "{state}");
        }
        assert_eq!(kinds(InstanceStateName::Running, None), []);
        let spot = kinds(InstanceStateName::Running, Some(InstanceLifecycleType::Spot));
        assert_eq!(spot, [Kind::RebalanceRecommendation], "no call shows it");
    }

    #[test]
    fn the_status_of_a_spot_request_says_that_its_instance_is_reclaimed() {
        let found = |code: &str| {
            let status = SpotInstanceStatus::builder().code(code).build();
            let request = SpotInstanceRequest::builder().instance_id("i-1").status(status).build();
            of_request(&request, NOW).map(|notice| notice.kind)
        };
        for code in ["marked-for-termination", "marked-for-stop", "instance-terminated-no-capacity"] {
            assert_eq!(found(code), Some(InterruptionKind::SpotInterrupted), "{code}");
        }
        for code in ["fulfilled", "pending-evaluation", "request-canceled-and-instance-running"] {
            assert_eq!(found(code), None, "{code}");
        }
        for code in ["instance-terminated-by-user", "instance-stopped-by-user"] {
            assert_eq!(found(code), None, "{code}: its owner has ended it");
        }
    }
}
