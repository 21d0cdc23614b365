//! DescribeSpotInstanceRequests: the request of each spot instance, with its status.

use cloud::provider::{Instance, InstanceState};
use model::CapacityType;

use super::status::Reports;
use super::{Instances, is_visible};
use crate::account::context::{Context, iso};
use crate::api_error::ApiError;
use crate::query::filters::Filters;
use crate::settings::Tags;
use crate::value::Fields;

const FILTERS: [&str; 3] = ["instance-id", "spot-instance-request-id", "status-code"];

/// Id of the request of a spot instance.
pub(super) fn request_id(instance: &Instance) -> String {
    format!("sir-{}", &instance.id[instance.id.len() - 8..])
}

fn status_code(reports: &Reports, instance: &Instance) -> &'static str {
    match (instance.state, reports.warned(&instance.id)) {
        (InstanceState::Running | InstanceState::Pending, None) => "fulfilled",
        (InstanceState::Running | InstanceState::Pending, Some(_)) => "marked-for-termination",
        (_, Some(_)) => "instance-terminated-no-capacity",
        (_, None) => "instance-terminated-by-user",
    }
}

impl Instances {
    pub(crate) fn describe_spot_requests(&self, reports: &Reports, call: &Context<'_>) -> Result<Fields, ApiError> {
        let filters = Filters::read(call.parameters, &FILTERS, true)?;
        let passes = |instance: &&Instance| {
            let field = |name: &str| match name {
                "instance-id" => vec![instance.id.to_string()],
                "spot-instance-request-id" => vec![request_id(instance)],
                _ => vec![status_code(reports, instance).to_owned()],
            };
            let is_spot = instance.capacity_type == CapacityType::Spot;
            is_spot && is_visible(call, instance) && filters.pass(&Tags::new(), field)
        };
        let found = call.cloud.instances().filter(passes);
        let (page, token) = call.page()?.take(found, |instance| instance.id.to_string());
        let shown = page.into_iter().map(|instance| {
            let status = Fields::new().with("code", status_code(reports, instance));
            let status = status.with("updateTime", iso(reports.warned(&instance.id).unwrap_or(instance.launched)));
            Fields::new()
                .with("spotInstanceRequestId", request_id(instance))
                .with("instanceId", instance.id.as_ref())
                .with("state", if instance.state == InstanceState::Terminated { "closed" } else { "active" })
                .with("status", status)
        });
        Ok(Fields::new().list("spotInstanceRequestSet", shown).maybe("nextToken", token))
    }
}
