//! DescribeInstanceStatus: status checks, and scheduled events. DescribeSpotInstanceRequests: the request of each spot
//! instance, with its status.

use std::collections::BTreeMap;

use cloud::provider::{Instance, InstanceState};
use model::interruption::InterruptionKind;
use model::{CapacityType, Timestamp};

use super::{is_visible, state};
use crate::account::context::{Context, iso};
use crate::account::region::Region;
use crate::api_error::ApiError;
use crate::query::filters::Filters;
use crate::settings::Tags;
use crate::value::Fields;

/// What status checks and events say of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    since: Timestamp,
    ends: Option<Timestamp>,
}

/// The last report of each kind about an instance.
#[derive(Debug, Default)]
pub(crate) struct Reports(BTreeMap<(String, InterruptionKind), Report>);

impl Reports {
    /// Keeps what a call shows, besides the event.
    pub(crate) fn record(&mut self, id: &str, kind: InterruptionKind, since: Timestamp, ends: Option<Timestamp>) {
        self.0.insert((id.to_owned(), kind), Report { since, ends });
    }

    fn of(&self, id: &str, kind: InterruptionKind) -> Option<&Report> {
        self.0.get(&(id.to_owned(), kind))
    }

    fn impaired(&self, id: &str) -> Option<&Report> {
        self.of(id, InterruptionKind::StatusCheckFailed)
    }

    fn scheduled(&self, id: &str) -> Option<&Report> {
        self.of(id, InterruptionKind::ScheduledChange)
    }

    /// When EC2 has warned that it takes the spot instance back.
    fn warned(&self, id: &str) -> Option<Timestamp> {
        self.of(id, InterruptionKind::SpotInterrupted).map(|report| report.since)
    }
}

/// DescribeInstanceStatus of running instances.
pub(crate) fn describe_status(region: &Region, reports: &Reports, call: &Context<'_>) -> Result<Fields, ApiError> {
    let filters = Filters::read(call.parameters, &["event.code", "instance-status.status", "system-status.status"])?;
    let passes = |instance: &&Instance| {
        let field = |name: &str| match name {
            "event.code" => reports.scheduled(&instance.id).map_or("", |_| RETIREMENT),
            "instance-status.status" => summary(reports.impaired(&instance.id)),
            _ => summary(None),
        };
        let is_wanted = instance.state == InstanceState::Running && is_visible(call, instance);
        is_wanted && filters.pass(&Tags::new(), field)
    };
    let (page, token) = call.page()?.take(call.cloud.instances(), |instance| instance.id.as_ref(), passes);
    let shown = page.into_iter().map(|instance| shown(region, reports, instance));
    Ok(Fields::new().list("instanceStatusSet", shown).maybe("nextToken", token))
}

/// DescribeSpotInstanceRequests of the instances that the call names.
pub(crate) fn describe_spot_requests(reports: &Reports, call: &Context<'_>) -> Result<Fields, ApiError> {
    let filters = Filters::read(call.parameters, &["instance-id"])?;
    let ids = filters.exact("instance-id").ok_or_else(|| ApiError::missing("Filter"))?;
    let passes = |instance: &&Instance| instance.capacity_type == CapacityType::Spot && is_visible(call, instance);
    let found = ids.iter().filter_map(|id| call.cloud.describe(id).ok());
    let (page, token) = call.page()?.take(found, |instance| instance.id.as_ref(), passes);
    let shown = page.into_iter().map(|instance| {
        let status = Fields::new().with("code", spot_code(reports, instance));
        let status = status.with("updateTime", iso(reports.warned(&instance.id).unwrap_or(instance.launched)));
        Fields::new()
            .with("spotInstanceRequestId", request_id(instance))
            .with("instanceId", instance.id.as_ref())
            .with("state", if instance.state == InstanceState::Terminated { "closed" } else { "active" })
            .with("status", status)
    });
    Ok(Fields::new().list("spotInstanceRequestSet", shown).maybe("nextToken", token))
}

/// Id of the request of a spot instance.
pub(super) fn request_id(instance: &Instance) -> String {
    format!("sir-{}", &instance.id[instance.id.len() - 8..])
}

fn spot_code(reports: &Reports, instance: &Instance) -> &'static str {
    match (instance.state, reports.warned(&instance.id)) {
        (InstanceState::Running | InstanceState::Pending, None) => "fulfilled",
        (InstanceState::Running | InstanceState::Pending, Some(_)) => "marked-for-termination",
        (_, Some(_)) => "instance-terminated-no-capacity",
        (_, None) => "instance-terminated-by-user",
    }
}

const RETIREMENT: &str = "instance-retirement";

/// Status of the checks of a running instance.
fn summary(impaired: Option<&Report>) -> &'static str {
    if impaired.is_some() { "impaired" } else { "ok" }
}

fn shown(region: &Region, reports: &Reports, instance: &Instance) -> Fields {
    let check = |impaired: Option<&Report>| {
        let detail = Fields::new().with("name", "reachability");
        let detail = match impaired {
            Some(report) => detail.with("status", "failed").with("impairedSince", iso(report.since)),
            None => detail.with("status", "passed"),
        };
        Fields::new().with("status", summary(impaired)).list("details", [detail])
    };
    let event = |report: &Report| {
        let planned = Fields::new()
            .with("instanceEventId", format!("instance-event-{}", instance.id.trim_start_matches("i-")))
            .with("code", RETIREMENT)
            .with("description", "The instance is running on degraded hardware");
        planned.with("notBefore", iso(report.ends.unwrap_or(report.since)))
    };
    Fields::new()
        .with("instanceId", instance.id.as_ref())
        .with("availabilityZone", instance.zone.as_ref())
        .with("availabilityZoneId", region.zone_id(&instance.zone))
        .with("instanceState", state(instance.state))
        .with("instanceStatus", check(reports.impaired(&instance.id)))
        .with("systemStatus", check(None))
        .list("eventsSet", reports.scheduled(&instance.id).map(event))
}
