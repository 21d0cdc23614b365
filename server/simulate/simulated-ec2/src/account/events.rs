//! Events of EC2 and AWS Health about instances, as EventBridge has them.

use cloud::provider::Instance;
use cloud::simulated::{ChangeKind, InstanceChange};
use model::Timestamp;
use model::interruption::InterruptionKind;
use serde_json::{Value, json};

use super::context::civil;
use super::instances::state_name;
use super::region::Region;

/// The event of a change; `None` for one that no event reports. A failed status check is found by
/// DescribeInstanceStatus only, and a termination by its change of state.
pub(crate) fn event(
    region: &Region,
    change: &InstanceChange,
    instance: Option<&Instance>,
    number: u64,
) -> Option<Value> {
    let id = change.instance.as_ref();
    let zone = instance.map(|instance| instance.zone.as_ref()).unwrap_or_default();
    let with_action = json!({ "instance-id": id, "instance-action": "terminate" });
    let (kind, detail) = match change.kind {
        ChangeKind::State(state) => (STATE_CHANGE, json!({ "instance-id": id, "state": state_name(state) })),
        ChangeKind::Interrupted { kind, ends } => match kind {
            InterruptionKind::SpotInterrupted => ("EC2 Spot Instance Interruption Warning", with_action),
            InterruptionKind::RebalanceRecommendation => {
                ("EC2 Instance Rebalance Recommendation", json!({ "instance-id": id }))
            }
            InterruptionKind::CapacityReservationInterrupted => {
                let mut detail = with_action;
                detail["instance-termination-time"] = time(ends.unwrap_or(change.at)).into();
                detail["azId"] = region.zone_id(zone).into();
                ("EC2 Capacity Reservation Instance Interruption Warning", detail)
            }
            InterruptionKind::InstanceStopped => (STATE_CHANGE, json!({ "instance-id": id, "state": "stopping" })),
            InterruptionKind::ScheduledChange => return Some(health(region, change, ends, number)),
            InterruptionKind::InstanceTerminated | InterruptionKind::StatusCheckFailed => return None,
        },
    };
    // A change of state names the instance by region and account, the others by zone.
    let settings = region.settings();
    let resource = match kind {
        STATE_CHANGE => format!("arn:aws:ec2:{}:{}:instance/{id}", settings.region, settings.account),
        _ => format!("arn:aws:ec2:{zone}:instance/{id}"),
    };
    Some(envelope(region, change, number, (kind, "aws.ec2", &resource), detail))
}

const STATE_CHANGE: &str = "EC2 Instance State-change Notification";

fn health(region: &Region, change: &InstanceChange, ends: Option<Timestamp>, number: u64) -> Value {
    let (id, name) = (change.instance.as_ref(), &region.settings().region);
    let code = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED";
    let begins = rfc_2822(ends.unwrap_or(change.at));
    let detail = json!({
        "eventArn": format!("arn:aws:health:{name}::event/EC2/{code}/{code}_{number}"),
        "service": "EC2",
        "eventTypeCode": code,
        "eventTypeCategory": "scheduledChange",
        "statusCode": "upcoming",
        "startTime": begins,
        "endTime": begins,
        "eventDescription": [{ "language": "en_US", "latestDescription": "The instance is running on degraded hardware." }],
        "affectedEntities": [{ "entityValue": id }],
    });
    envelope(region, change, number, ("AWS Health Event", "aws.health", id), detail)
}

fn envelope(
    region: &Region,
    change: &InstanceChange,
    number: u64,
    (kind, source, resource): (&str, &str, &str),
    detail: Value,
) -> Value {
    json!({
        "version": "0",
        "id": format!("00000000-0000-4000-a000-{number:012}"),
        "detail-type": kind,
        "source": source,
        "account": region.settings().account,
        "time": time(change.at),
        "region": region.settings().region,
        "resources": [resource],
        "detail": detail,
    })
}

/// RFC 3339 in whole seconds.
fn time(at: Timestamp) -> String {
    format!("{:.0}", civil(at))
}

/// As AWS Health writes times: `Thu, 27 Aug 2026 05:00:00 GMT`.
fn rfc_2822(at: Timestamp) -> String {
    civil(at).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
