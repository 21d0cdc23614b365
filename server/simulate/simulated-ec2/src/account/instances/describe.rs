//! DescribeInstances.

use cloud::provider::{Instance, InstanceState};
use model::CapacityType;

use super::status::request_id;
use super::{Instances, find, is_visible, lifecycle, state, state_name};
use crate::account::addresses::dotted;
use crate::account::context::{Context, iso, tag_set};
use crate::account::region::Region;
use crate::api_error::ApiError;
use crate::query::filters::Filters;
use crate::value::Fields;

impl Instances {
    /// DescribeInstances. Each instance is a reservation of its own.
    pub(crate) fn describe(&self, region: &Region, call: &Context<'_>) -> Result<Fields, ApiError> {
        let known = ["tag:", "tag-key", "instance-id", "instance-state-name", "instance-type"];
        let filters = Filters::read(call.parameters, &known)?;
        let ids = call.parameters.list("InstanceId");
        if !ids.is_empty() && call.parameters.get("MaxResults").is_some() {
            let message = "The parameter instancesSet cannot be used with the parameter maxResults";
            return Err(ApiError::new("InvalidParameterCombination", message));
        }
        let found = match ids.is_empty() {
            true => self.candidates(region, &filters, call),
            false => ids.iter().map(|id| find(call, id)).collect::<Result<_, _>>()?,
        };
        let passes = |instance: &&Instance| {
            let is_listed = !ids.is_empty()
                || instance.state == InstanceState::Terminated
                || call.cloud.is_listed(instance, call.now);
            let field = |name: &str| match name {
                "instance-id" => instance.id.as_ref(),
                "instance-state-name" => state_name(instance.state),
                _ => instance.instance_type.as_ref(),
            };
            let tags = || self.tags(instance, &region.settings().ownership);
            is_listed && is_visible(call, instance) && filters.pass(&tags(), field)
        };
        let (page, token) = call.page()?.take(found, |instance| instance.id.as_ref(), passes);
        let reservations = page.into_iter().map(|instance| self.reservation(region, instance));
        Ok(Fields::new().list("reservationSet", reservations).maybe("nextToken", token))
    }

    /// The instances that may pass `filters`, by id: those that a filter names by their ids or by their cluster, else all.
    fn candidates<'c>(&self, region: &Region, filters: &Filters, call: &'c Context<'_>) -> Vec<&'c Instance> {
        if let Some(ids) = filters.exact("instance-id") {
            return ids.iter().filter_map(|id| call.cloud.describe(id).ok()).collect();
        }
        let cluster = format!("tag:{}", region.settings().ownership.cluster);
        match filters.exact(&cluster).filter(|_| !self.reattributed) {
            Some(clusters) => {
                let of_cluster = clusters.iter().flat_map(|name| call.cloud.of_cluster(&name.as_str().into()));
                let mut found: Vec<&Instance> = of_cluster.collect();
                found.sort_unstable_by(|a, b| a.id.cmp(&b.id));
                found
            }
            None => call.cloud.instances().collect(),
        }
    }

    fn reservation(&self, region: &Region, instance: &Instance) -> Fields {
        let number = instance.id.trim_start_matches("i-");
        Fields::new()
            .with("reservationId", format!("r-{number}"))
            .with("ownerId", &region.settings().account)
            .list("instancesSet", [self.shown(region, instance)])
    }

    fn shown(&self, region: &Region, instance: &Instance) -> Fields {
        let details = self.details(&instance.id);
        let placement = Fields::new()
            .with("availabilityZone", instance.zone.as_ref())
            .with("availabilityZoneId", region.zone_id(&instance.zone));
        let is_spot = instance.capacity_type == CapacityType::Spot;
        let fields = Fields::new()
            .with("instanceId", instance.id.as_ref())
            .maybe("imageId", details.map(|details| &details.image).filter(|image| !image.is_empty()))
            .with("instanceState", state(instance.state))
            .with("instanceType", instance.instance_type.as_ref())
            .with("launchTime", iso(instance.launched))
            .with("placement", placement)
            .maybe("instanceLifecycle", lifecycle(instance, details))
            .maybe("spotInstanceRequestId", is_spot.then(|| request_id(instance)))
            .maybe("capacityReservationId", details.and_then(|details| details.reservation.as_ref()))
            .with("tagSet", tag_set(&self.tags(instance, &region.settings().ownership)));
        // A terminated instance has no network (EC2: terminated instances).
        let Some(details) = details.filter(|_| instance.state != InstanceState::Terminated) else { return fields };
        let Some(subnet) = region.subnet(&details.subnet) else { return fields };
        fields
            .with("subnetId", &subnet.id)
            .with("vpcId", &subnet.vpc)
            .with("privateIpAddress", dotted(subnet, details.lease.primary))
            .list("groupSet", details.groups.iter().map(|id| Fields::new().with("groupId", id)))
    }
}
