//! DescribeInstanceStatus: status checks, and scheduled events.

use std::collections::BTreeMap;

use cloud::provider::{Instance, InstanceState};
use model::Timestamp;
use model::interruption::InterruptionKind;

use super::{Instances, find, is_visible, state, state_name};
use crate::account::context::{Context, iso};
use crate::account::region::Region;
use crate::api_error::ApiError;
use crate::query::filters::Filters;
use crate::settings::Tags;
use crate::value::Fields;

const FILTERS: [&str; 6] = [
    "availability-zone",
    "event.code",
    "instance-state-name",
    "instance-status.status",
    "system-status.status",
    "attached-ebs-status.status",
];

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
    pub(super) fn warned(&self, id: &str) -> Option<Timestamp> {
        self.of(id, InterruptionKind::SpotInterrupted).map(|report| report.since)
    }
}

impl Instances {
    pub(crate) fn describe_status(
        &self,
        region: &Region,
        reports: &Reports,
        call: &Context<'_>,
    ) -> Result<Fields, ApiError> {
        let filters = Filters::read(call.parameters, &FILTERS, false)?;
        let ids = call.parameters.list("InstanceId");
        for id in &ids {
            find(call, id)?;
        }
        let all = call.parameters.is_true("IncludeAllInstances");
        let wanted = |instance: &&Instance| {
            (ids.is_empty() || ids.contains(&instance.id.as_ref()))
                && (all || instance.state == InstanceState::Running)
                && is_visible(call, instance)
        };
        let passes = |instance: &&Instance| {
            let field = |name: &str| match name {
                "availability-zone" => vec![instance.zone.to_string()],
                "event.code" => reports.scheduled(&instance.id).map(|_| RETIREMENT.to_owned()).into_iter().collect(),
                "instance-state-name" => vec![state_name(instance.state).to_owned()],
                "instance-status.status" => vec![summary(instance, reports.impaired(&instance.id)).to_owned()],
                _ => vec![summary(instance, None).to_owned()],
            };
            filters.pass(&Tags::new(), field)
        };
        let found = call.cloud.instances().filter(wanted).filter(passes);
        let (page, token) = call.page()?.take(found, |instance| instance.id.to_string());
        let shown = page.into_iter().map(|instance| shown(region, reports, instance));
        Ok(Fields::new().list("instanceStatusSet", shown).maybe("nextToken", token))
    }
}

const RETIREMENT: &str = "instance-retirement";

/// Status of the checks of an instance.
fn summary(instance: &Instance, impaired: Option<&Report>) -> &'static str {
    match (instance.state, impaired) {
        (InstanceState::Running, None) => "ok",
        (InstanceState::Running, Some(_)) => "impaired",
        (InstanceState::Pending, _) => "initializing",
        _ => "not-applicable",
    }
}

fn shown(region: &Region, reports: &Reports, instance: &Instance) -> Fields {
    let check = |impaired: Option<&Report>| {
        let detail = Fields::new().with("name", "reachability");
        let detail = match (impaired, summary(instance, impaired)) {
            (Some(report), "impaired") => detail.with("status", "failed").with("impairedSince", iso(report.since)),
            (_, "ok") => detail.with("status", "passed"),
            _ => detail.with("status", "initializing"),
        };
        Fields::new().with("status", summary(instance, impaired)).list("details", [detail])
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
