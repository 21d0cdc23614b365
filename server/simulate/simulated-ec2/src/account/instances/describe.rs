//! DescribeInstances.

use cloud::provider::{Instance, InstanceState};
use model::CapacityType;

use super::spot_requests::request_id;
use super::{Details, Instances, find, is_visible, lifecycle, state, state_name};
use crate::account::addresses::dotted;
use crate::account::context::{Context, iso};
use crate::account::launch_templates::tag_set;
use crate::account::region::Region;
use crate::api_error::ApiError;
use crate::query::filters::Filters;
use crate::value::Fields;

const FILTERS: [&str; 11] = [
    "availability-zone",
    "capacity-reservation-id",
    "client-token",
    "image-id",
    "instance-id",
    "instance-lifecycle",
    "instance-state-name",
    "instance-type",
    "subnet-id",
    "vpc-id",
    "private-dns-name",
];

impl Instances {
    /// DescribeInstances. Each instance is a reservation of its own.
    pub(crate) fn describe(&self, region: &Region, call: &Context<'_>) -> Result<Fields, ApiError> {
        let filters = Filters::read(call.parameters, &FILTERS, true)?;
        let ids = call.parameters.list("InstanceId");
        if !ids.is_empty() && call.parameters.get("MaxResults").is_some() {
            let message = "The parameter instancesSet cannot be used with the parameter maxResults";
            return Err(ApiError::new("InvalidParameterCombination", message));
        }
        for id in &ids {
            find(call, id)?;
        }
        let ownership = &region.settings().ownership;
        let listed = |instance: &&Instance| {
            let named = ids.contains(&instance.id.as_ref());
            let is_listed = named
                || ids.is_empty()
                    && (instance.state == InstanceState::Terminated || call.cloud.is_listed(instance, call.now));
            is_listed && is_visible(call, instance)
        };
        let passes = |instance: &&Instance| {
            let details = self.details(&instance.id);
            filters.pass(&self.tags(instance, ownership), |name| field(region, instance, details, name))
        };
        let found = call.cloud.instances().filter(listed).filter(passes);
        let (page, token) = call.page()?.take(found, |instance| instance.id.to_string());
        let reservations = page.into_iter().map(|instance| self.reservation(region, instance));
        Ok(Fields::new().list("reservationSet", reservations).maybe("nextToken", token))
    }

    fn reservation(&self, region: &Region, instance: &Instance) -> Fields {
        let number = instance.id.trim_start_matches("i-");
        Fields::new()
            .with("reservationId", format!("r-{number}"))
            .with("ownerId", &region.settings().account)
            .list("instancesSet", [self.shown(region, instance)])
    }

    fn shown(&self, region: &Region, instance: &Instance) -> Fields {
        let missing = Details::default();
        let details = self.details(&instance.id).unwrap_or(&missing);
        let text = |text: &String| (!text.is_empty()).then(|| text.clone());
        let placement = Fields::new()
            .with("availabilityZone", instance.zone.as_ref())
            .with("availabilityZoneId", region.zone_id(&instance.zone))
            .with("tenancy", "default");
        let is_spot = instance.capacity_type == CapacityType::Spot;
        let monitoring = if details.monitoring { "enabled" } else { "disabled" };
        let fields = Fields::new()
            .with("instanceId", instance.id.as_ref())
            .maybe("imageId", text(&details.image))
            .with("instanceState", state(instance.state))
            .with("instanceType", instance.instance_type.as_ref())
            .with("launchTime", iso(instance.launched))
            .with("placement", placement)
            .with("monitoring", Fields::new().with("state", monitoring))
            .with("architecture", region.architecture(&instance.instance_type))
            .maybe("clientToken", text(&details.token))
            .maybe("instanceLifecycle", lifecycle(instance, Some(details)))
            .maybe("spotInstanceRequestId", is_spot.then(|| request_id(instance)))
            .with("tagSet", tag_set(&self.tags(instance, &region.settings().ownership)));
        let fields = reserved(fields, details);
        let fields = profiled(fields, details, &region.settings().account);
        connected(fields, region, details, instance)
    }
}

fn reserved(fields: Fields, details: &Details) -> Fields {
    let target = details.reservation_target.as_ref().map(|id| Fields::new().with("capacityReservationId", id));
    let specification = Fields::new()
        .with("capacityReservationPreference", details.reservation_preference.as_deref().unwrap_or("open"))
        .maybe("capacityReservationTarget", target);
    fields
        .maybe("capacityReservationId", details.reservation.as_ref())
        .with("capacityReservationSpecification", specification)
}

fn profiled(fields: Fields, details: &Details, account: &str) -> Fields {
    let profile = details.profile.as_ref().map(|name| {
        Fields::new()
            .with("arn", format!("arn:aws:iam::{account}:instance-profile/{name}"))
            .with("id", format!("AIPA{name}"))
    });
    let options = details.metadata_options.iter();
    let shown = options.fold(Fields::new(), |fields, (name, value)| match name.as_str() {
        "HttpTokens" => fields.with("httpTokens", value),
        "HttpPutResponseHopLimit" => fields.with("httpPutResponseHopLimit", value),
        "HttpEndpoint" => fields.with("httpEndpoint", value),
        "HttpProtocolIpv6" => fields.with("httpProtocolIpv6", value),
        "InstanceMetadataTags" => fields.with("instanceMetadataTags", value),
        _ => fields,
    });
    fields.maybe("iamInstanceProfile", profile).with("metadataOptions", shown)
}

/// Subnet, VPC, addresses and groups; a terminated instance has none (EC2: terminated instances).
fn connected(fields: Fields, region: &Region, details: &Details, instance: &Instance) -> Fields {
    let subnet = region.subnet(&details.subnet).filter(|_| instance.state != InstanceState::Terminated);
    let Some(subnet) = subnet else { return fields };
    let address = dotted(subnet, details.lease.primary);
    let group = |id: &String| {
        let name = region.security_group(id).map(|group| group.name.clone());
        Fields::new().with("groupId", id).maybe("groupName", name)
    };
    fields
        .with("subnetId", &subnet.id)
        .with("vpcId", &subnet.vpc)
        .with("privateIpAddress", &address)
        .with("privateDnsName", private_dns_name(&address, &region.settings().region))
        .list("groupSet", details.groups.iter().map(group))
}

/// Host name of an address (EC2: instance hostname types).
fn private_dns_name(address: &str, region: &str) -> String {
    let host = format!("ip-{}", address.replace('.', "-"));
    if region == "us-east-1" { format!("{host}.ec2.internal") } else { format!("{host}.{region}.compute.internal") }
}

/// The values of an instance for the filter `name`.
fn field(region: &Region, instance: &Instance, details: Option<&Details>, name: &str) -> Vec<String> {
    let detail = |value: fn(&Details) -> &String| details.map(value).filter(|value| !value.is_empty()).cloned();
    let subnet = details.and_then(|details| region.subnet(&details.subnet));
    let value = match name {
        "availability-zone" => Some(instance.zone.to_string()),
        "capacity-reservation-id" => details.and_then(|details| details.reservation.clone()),
        "client-token" => detail(|details| &details.token),
        "image-id" => detail(|details| &details.image),
        "instance-id" => Some(instance.id.to_string()),
        "instance-lifecycle" => lifecycle(instance, details),
        "instance-state-name" => Some(state_name(instance.state).to_owned()),
        "instance-type" => Some(instance.instance_type.to_string()),
        "subnet-id" => detail(|details| &details.subnet),
        "vpc-id" => subnet.map(|subnet| subnet.vpc.clone()),
        "private-dns-name" => subnet.zip(details).map(|(subnet, details)| {
            private_dns_name(&dotted(subnet, details.lease.primary), &region.settings().region)
        }),
        _ => None,
    };
    value.into_iter().collect()
}
