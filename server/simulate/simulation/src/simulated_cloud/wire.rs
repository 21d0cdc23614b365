//! Conversion between the protobuf messages of the simulated cloud and the provider types, for the
//! client in [`super::remote`] and the server in [`super::service`].

use cloud::provider::{
    CloudError, CloudEvent, Instance, InstanceDetails, InstanceState, LaunchOutcome, LaunchRequest, Override,
};
use fleetwright_proto::simulation::v1;
use fleetwright_proto::simulation::v1::failure::Kind;
use model::interruption::InterruptionKind;
use model::{
    CapacityType, ClaimName, ClusterName, InstanceTypeName, PoolName, ProviderId, RefusedOption, Text, Timestamp, Zone,
};

pub(crate) fn launch_request(request: &LaunchRequest) -> v1::LaunchRequest {
    v1::LaunchRequest {
        token: request.token.to_string(),
        cluster: request.cluster.to_string(),
        cluster_uid: request.cluster_uid.to_string(),
        claim: request.claim.to_string(),
        pool: request.pool.to_string(),
        node_class: request.node_class.to_string(),
        capacity_type: request.capacity_type.as_str().to_owned(),
        overrides: request.overrides.iter().map(option).collect(),
        reservation: request.reservation.as_deref().unwrap_or_default().to_owned(),
    }
}

pub fn read_launch_request(request: v1::LaunchRequest) -> LaunchRequest {
    LaunchRequest {
        token: Text::from(request.token),
        cluster: ClusterName::from(request.cluster),
        cluster_uid: Text::from(request.cluster_uid),
        claim: ClaimName::from(request.claim),
        pool: PoolName::from(request.pool),
        node_class: Text::from(request.node_class),
        capacity_type: capacity_type(&request.capacity_type),
        overrides: request.overrides.into_iter().map(read_option).collect(),
        reservation: (!request.reservation.is_empty()).then(|| Text::from(request.reservation)),
        // The simulated cloud has no provider settings.
        terms: Text::default(),
        template: None,
    }
}

fn option(option: &Override) -> v1::Override {
    v1::Override { instance_type: option.instance_type.to_string(), zone: option.zone.to_string() }
}

fn read_option(option: v1::Override) -> Override {
    Override { instance_type: InstanceTypeName::from(option.instance_type), zone: Zone::from(option.zone) }
}

fn capacity_type(word: &str) -> CapacityType {
    let all = [CapacityType::Spot, CapacityType::Reserved, CapacityType::OnDemand];
    all.into_iter().find(|kind| kind.as_str() == word).unwrap_or(CapacityType::OnDemand)
}

pub fn instance(instance: &Instance) -> v1::Instance {
    let state = match instance.state {
        InstanceState::Pending => v1::InstanceState::Pending,
        InstanceState::Running => v1::InstanceState::Running,
        InstanceState::ShuttingDown => v1::InstanceState::ShuttingDown,
        InstanceState::Terminated => v1::InstanceState::Terminated,
    };
    v1::Instance {
        id: instance.id.to_string(),
        provider_id: instance.provider_id.to_string(),
        instance_type: instance.instance_type.to_string(),
        zone: instance.zone.to_string(),
        capacity_type: instance.capacity_type.as_str().to_owned(),
        state: state.into(),
        cluster: instance.cluster.to_string(),
        cluster_uid: instance.cluster_uid.to_string(),
        claim: instance.claim.to_string(),
        pool: instance.pool.to_string(),
        launched_ms: instance.launched.as_millis(),
    }
}

pub fn read_instance(instance: v1::Instance) -> Instance {
    let state = match instance.state() {
        v1::InstanceState::Running => InstanceState::Running,
        v1::InstanceState::ShuttingDown => InstanceState::ShuttingDown,
        v1::InstanceState::Terminated => InstanceState::Terminated,
        v1::InstanceState::Pending | v1::InstanceState::Unspecified => InstanceState::Pending,
    };
    Instance {
        id: Text::from(instance.id),
        provider_id: ProviderId::from(instance.provider_id),
        instance_type: InstanceTypeName::from(instance.instance_type),
        zone: Zone::from(instance.zone),
        capacity_type: capacity_type(&instance.capacity_type),
        state,
        cluster: ClusterName::from(instance.cluster),
        cluster_uid: Text::from(instance.cluster_uid),
        claim: ClaimName::from(instance.claim),
        pool: PoolName::from(instance.pool),
        launched: Timestamp::from_millis(instance.launched_ms),
        // The simulated cloud has no images, subnets or security groups.
        details: InstanceDetails::default(),
    }
}

/// Encodes the outcome of a launch.
pub fn launch_response(outcome: &Result<LaunchOutcome, CloudError>) -> v1::LaunchResponse {
    match outcome {
        Ok(outcome) => v1::LaunchResponse {
            instance: Some(instance(&outcome.instance)),
            unavailable: outcome.unavailable.iter().map(refused_option).collect(),
            failure: None,
        },
        Err(error) => v1::LaunchResponse { failure: Some(failure(error)), ..v1::LaunchResponse::default() },
    }
}

/// # Errors
/// The error of the cloud.
pub(crate) fn read_launch_response(response: v1::LaunchResponse) -> Result<LaunchOutcome, CloudError> {
    check_failure(response.failure)?;
    let instance = response.instance.map(read_instance).ok_or_else(|| unknown("the launch"))?;
    Ok(LaunchOutcome { instance, unavailable: response.unavailable.into_iter().map(read_refused_option).collect() })
}

/// The simulated cloud refuses for want of capacity alone, so that neither cause nor code is sent.
fn refused_option(refused: &RefusedOption) -> v1::Override {
    option(&Override::from(refused))
}

fn read_refused_option(refused: v1::Override) -> RefusedOption {
    read_option(refused).without_capacity()
}

/// Encodes an event of the cloud.
pub fn event(event: &CloudEvent) -> v1::Event {
    let plain = |kind: v1::EventKind, machine: &Instance| v1::Event {
        kind: kind.into(),
        instance: Some(instance(machine)),
        ..v1::Event::default()
    };
    match event {
        CloudEvent::Running(machine) => plain(v1::EventKind::Running, machine),
        CloudEvent::Interrupted { instance, kind, at } => v1::Event {
            at_ms: at.map_or(0, Timestamp::as_millis),
            interruption: interruption(*kind).into(),
            ..plain(v1::EventKind::Interrupted, instance)
        },
        CloudEvent::Terminated(machine) => plain(v1::EventKind::Terminated, machine),
    }
}

pub fn interruption(kind: InterruptionKind) -> v1::InterruptionKind {
    match kind {
        InterruptionKind::SpotInterrupted => v1::InterruptionKind::SpotInterrupted,
        InterruptionKind::RebalanceRecommendation => v1::InterruptionKind::RebalanceRecommendation,
        InterruptionKind::CapacityReservationInterrupted => v1::InterruptionKind::CapacityReservationInterrupted,
        InterruptionKind::ScheduledChange => v1::InterruptionKind::ScheduledChange,
        InterruptionKind::InstanceStopped => v1::InterruptionKind::InstanceStopped,
        InterruptionKind::InstanceTerminated => v1::InterruptionKind::InstanceTerminated,
        InterruptionKind::StatusCheckFailed => v1::InterruptionKind::StatusCheckFailed,
    }
}

pub fn read_interruption(kind: v1::InterruptionKind) -> InterruptionKind {
    let is_kind = |known: &InterruptionKind| interruption(*known) == kind;
    InterruptionKind::ALL.into_iter().find(is_kind).unwrap_or(InterruptionKind::SpotInterrupted)
}

/// `None` for an unknown event kind.
pub(crate) fn read_event(event: v1::Event) -> Option<CloudEvent> {
    let (kind, interruption) = (event.kind(), read_interruption(event.interruption()));
    let at = (event.at_ms != 0).then(|| Timestamp::from_millis(event.at_ms));
    let instance = event.instance.map(read_instance)?;
    match kind {
        v1::EventKind::Running => Some(CloudEvent::Running(instance)),
        v1::EventKind::Interrupted => Some(CloudEvent::Interrupted { instance, kind: interruption, at }),
        v1::EventKind::Terminated => Some(CloudEvent::Terminated(instance)),
        v1::EventKind::Unspecified => None,
    }
}

/// Encodes an error of the cloud.
pub fn failure(error: &CloudError) -> v1::Failure {
    let kind = match error {
        CloudError::InsufficientCapacity { unavailable } => Kind::InsufficientCapacity(v1::InsufficientCapacity {
            unavailable: unavailable.iter().map(refused_option).collect(),
        }),
        CloudError::RequestLimitExceeded { retry_after_ms } => Kind::RetryAfterMs(*retry_after_ms),
        CloudError::IdempotentParameterMismatch { token } => Kind::TokenMismatch(token.to_string()),
        CloudError::NotFound { id } => Kind::NotFound(id.to_string()),
        CloudError::Foreign { id, owner, asked } => {
            Kind::Foreign(v1::Foreign { id: id.to_string(), owner: owner.to_string(), asked: asked.to_string() })
        }
        CloudError::Unknown { operation } => Kind::Unknown(operation.to_string()),
        CloudError::Refused { operation, code, message } => Kind::Refused(v1::Refused {
            operation: operation.to_string(),
            code: code.to_string(),
            message: message.clone(),
        }),
    };
    v1::Failure { kind: Some(kind) }
}

/// # Errors
/// The failure, if present.
pub(crate) fn check_failure(failure: Option<v1::Failure>) -> Result<(), CloudError> {
    let Some(failure) = failure else { return Ok(()) };
    Err(match failure.kind {
        Some(Kind::InsufficientCapacity(short)) => CloudError::InsufficientCapacity {
            unavailable: short.unavailable.into_iter().map(read_refused_option).collect(),
        },
        Some(Kind::RetryAfterMs(retry_after_ms)) => CloudError::RequestLimitExceeded { retry_after_ms },
        Some(Kind::TokenMismatch(token)) => CloudError::IdempotentParameterMismatch { token: Text::from(token) },
        Some(Kind::NotFound(id)) => CloudError::NotFound { id: Text::from(id) },
        Some(Kind::Foreign(v1::Foreign { id, owner, asked })) => {
            CloudError::Foreign { id: Text::from(id), owner: Text::from(owner), asked: Text::from(asked) }
        }
        Some(Kind::Unknown(operation)) => CloudError::Unknown { operation: Text::from(operation) },
        Some(Kind::Refused(v1::Refused { operation, code, message })) => {
            CloudError::Refused { operation: Text::from(operation), code: Text::from(code), message }
        }
        None => unknown("a failure without a kind"),
    })
}

/// The error of a call whose response was lost.
pub fn unknown(operation: &str) -> CloudError {
    CloudError::Unknown { operation: Text::from(operation) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option_of(kind: &str) -> Override {
        Override { instance_type: InstanceTypeName::from(kind), zone: Zone::from("us-east-1a") }
    }

    #[test]
    fn a_request_round_trips_so_that_its_token_matches() {
        let request = LaunchRequest {
            token: Text::from("web-abcde-2"),
            cluster: ClusterName::from("blue"),
            cluster_uid: Text::from("uid-1"),
            claim: ClaimName::from("web-abcde"),
            pool: PoolName::from("web"),
            node_class: Text::from("default"),
            capacity_type: CapacityType::Reserved,
            overrides: vec![option_of("m5.large"), option_of("c5.large")],
            reservation: Some(Text::from("cr-1")),
            terms: Text::default(),
            template: None,
        };
        assert_eq!(read_launch_request(launch_request(&request)), request);
        let plain = LaunchRequest { reservation: None, capacity_type: CapacityType::Spot, ..request };
        assert_eq!(read_launch_request(launch_request(&plain)), plain);
    }

    #[test]
    fn every_kind_of_interruption_round_trips() {
        for (kind, at) in
            InterruptionKind::ALL.into_iter().zip([None, Some(Timestamp::from_millis(7))].into_iter().cycle())
        {
            let plain = v1::Instance { id: "i-1".to_owned(), ..v1::Instance::default() };
            let told = CloudEvent::Interrupted { instance: read_instance(plain), kind, at };
            assert_eq!(read_event(event(&told)), Some(told));
        }
    }

    #[test]
    fn every_failure_round_trips() {
        let text = Text::from;
        let failures = [
            CloudError::InsufficientCapacity { unavailable: vec![option_of("m5.large").without_capacity()] },
            CloudError::RequestLimitExceeded { retry_after_ms: 7 },
            CloudError::IdempotentParameterMismatch { token: text("t") },
            CloudError::NotFound { id: text("i-1") },
            CloudError::Foreign { id: text("i-1"), owner: text("blue"), asked: text("green") },
            CloudError::Unknown { operation: text("x") },
            CloudError::Refused { operation: text("x"), code: text("y"), message: "z".to_owned() },
        ];
        for error in failures {
            assert_eq!(check_failure(Some(failure(&error))), Err(error));
        }
    }
}
