//! Launches the instances of a fleet from its pools, in order.

use cloud::provider::Override;
use cloud::simulated::Placement;
use model::{CapacityType, InstanceTypeName, Text, Zone};

use super::request::{FleetRequest, Target};
use super::resolve::{Candidate, LaunchError};
use crate::account::context::Context;
use crate::account::instances::{Details, Instances};
use crate::account::region::Region;
use crate::faults::switchboard::Pool;
use crate::settings::{Reservation, Tags};
use crate::value::Fields;

/// Preference of launches that use reservations only.
const RESERVATIONS_ONLY: &str = "capacity-reservations-only";

/// Launches the instances of one fleet.
#[derive(Debug)]
pub(super) struct Launcher<'a, 'c> {
    pub(super) request: &'a FleetRequest,
    pub(super) fleet: &'a str,
    pub(super) region: &'a Region,
    pub(super) instances: &'a mut Instances,
    pub(super) call: &'a mut Context<'c>,
}

impl Launcher<'_, '_> {
    /// Launches up to the target from the candidates, in their order. Returns the launched instances by candidate,
    /// and why candidates launched none or too few.
    pub(super) fn launch(&mut self, candidates: &[Candidate]) -> (Vec<Fields>, Vec<LaunchError>) {
        let (mut groups, mut errors) = (Vec::new(), Vec::new());
        let mut missing = self.request.total;
        for candidate in candidates {
            let mut ids = Vec::new();
            while missing > 0 {
                match self.launch_one(candidate) {
                    Ok(id) => ids.push(id),
                    Err(error) => {
                        errors.push(error);
                        break;
                    }
                }
                missing -= 1;
            }
            if !ids.is_empty() {
                groups.push(self.group(candidate, ids));
            }
        }
        (groups, errors)
    }

    fn group(&self, candidate: &Candidate, ids: Vec<String>) -> Fields {
        Fields::new()
            .with("launchTemplateAndOverrides", candidate.echo.clone())
            .with("lifecycle", candidate.lifecycle)
            .list("instanceIds", ids)
            .with("instanceType", &candidate.instance_type)
            .with("availabilityZone", &candidate.zone)
            .with("availabilityZoneId", self.region.zone_id(&candidate.zone))
            .with("subnetId", &candidate.subnet)
    }

    fn launch_one(&mut self, candidate: &Candidate) -> Result<String, LaunchError> {
        let reservation = self.reservation(candidate)?;
        let capacity_type = match (self.request.target, &candidate.reservation_target) {
            (Target::Spot, _) => CapacityType::Spot,
            (Target::OnDemand, None) => CapacityType::OnDemand,
            _ => CapacityType::Reserved,
        };
        self.check_capacity(candidate, capacity_type, reservation.is_some())?;
        let subnet = self.region.subnet(&candidate.subnet);
        let lease = subnet.and_then(|subnet| self.instances.addresses.take(subnet, candidate.secondary_addresses));
        let lease = lease.ok_or_else(|| {
            let message =
                format!("There are not enough free addresses in subnet '{}' to satisfy the request.", candidate.subnet);
            candidate.fails("InsufficientFreeAddressesInSubnet", message)
        })?;
        self.call.faults.take_capacity(pool(candidate, capacity_type));
        let tags = self.tags(candidate);
        let placement = self.placement(candidate, capacity_type, &tags);
        let instance = self.call.cloud.launch_placement(&placement, self.call.now);
        let details = Details {
            tags,
            lease,
            reservation,
            image: candidate.image.clone(),
            subnet: candidate.subnet.clone(),
            groups: candidate.groups.clone(),
            market: candidate.market.clone(),
        };
        self.instances.insert(&instance.id, details);
        Ok(instance.id.to_string())
    }

    /// The reservation that the launch uses: the one that it names, or an open one that matches.
    fn reservation(&self, candidate: &Candidate) -> Result<Option<String>, LaunchError> {
        let Some(id) = &candidate.reservation_target else { return self.no_target(candidate) };
        let unknown = || {
            let message = format!("The Capacity Reservation '{id}' does not exist.");
            candidate.fails("InvalidCapacityReservationId.NotFound", message)
        };
        let reservation = self.region.reservation(id).ok_or_else(unknown)?;
        if reservation.instance_type != candidate.instance_type || reservation.zone != candidate.zone {
            let message =
                format!("The Capacity Reservation '{id}' does not match instance type and zone of the launch.");
            return Err(candidate.fails("InvalidParameterValue", message));
        }
        if !fits_market(self.request.target, reservation, candidate.market.as_deref()) {
            let message = format!("The market type of the launch does not match the Capacity Reservation '{id}'.");
            return Err(candidate.fails("InvalidParameterCombination", message));
        }
        if self.is_used_up(reservation) {
            let message = "The requested reservation does not have sufficient compatible and available capacity for this request.";
            return Err(candidate.fails("ReservationCapacityExceeded", message));
        }
        Ok(Some(id.clone()))
    }

    fn no_target(&self, candidate: &Candidate) -> Result<Option<String>, LaunchError> {
        let preference = candidate.reservation_preference.as_deref();
        if self.request.target == Target::ReservedCapacity || preference == Some(RESERVATIONS_ONLY) {
            let message = "The launch uses reserved capacity only, and names no Capacity Reservation.";
            return Err(candidate.fails("ReservationCapacityExceeded", message));
        }
        if self.request.target != Target::OnDemand || preference == Some("none") {
            return Ok(None);
        }
        let matches = |reservation: &&Reservation| {
            let is_plain = !reservation.targeted && !reservation.capacity_block && !reservation.interruptible;
            let is_equal = reservation.instance_type == candidate.instance_type && reservation.zone == candidate.zone;
            is_plain && is_equal && !self.is_used_up(reservation)
        };
        Ok(self.region.settings().reservations.iter().find(matches).map(|reservation| reservation.id.clone()))
    }

    fn is_used_up(&self, reservation: &Reservation) -> bool {
        reservation.has_ended(self.call.now) || self.instances.using(&reservation.id) >= reservation.count
    }

    fn check_capacity(
        &self,
        candidate: &Candidate,
        capacity_type: CapacityType,
        reserved: bool,
    ) -> Result<(), LaunchError> {
        if capacity_type == CapacityType::Spot && candidate.price.is_none() {
            let message = "Unable to fulfill capacity due to your request configuration: the pool has no Spot price.";
            return Err(candidate.fails("UnfulfillableCapacity", message));
        }
        let option = option(candidate);
        let by_pool = self.call.faults.available(pool(candidate, capacity_type)) != Some(0);
        let by_cloud = self.call.cloud.is_available(&option, capacity_type, self.call.now);
        // An open reservation has capacity of its own.
        if by_pool && by_cloud || reserved && capacity_type == CapacityType::OnDemand {
            return Ok(());
        }
        let message = match capacity_type {
            CapacityType::Spot => "There is no Spot capacity available that matches your request.".to_owned(),
            _ => format!(
                "We currently do not have sufficient {} capacity in the Availability Zone you requested ({}).",
                candidate.instance_type, candidate.zone
            ),
        };
        Err(candidate.fails("InsufficientInstanceCapacity", message))
    }

    /// Tags of template and request, and those that EC2 adds.
    fn tags(&self, candidate: &Candidate) -> Tags {
        let mut tags = candidate.template_tags.clone();
        tags.extend(self.request.instance_tags.clone());
        tags.insert("aws:ec2:fleet-id".to_owned(), self.fleet.to_owned());
        tags
    }

    fn placement(&self, candidate: &Candidate, capacity_type: CapacityType, tags: &Tags) -> Placement {
        let ownership = &self.region.settings().ownership;
        let tag = |key: &String| tags.get(key).map(String::as_str).unwrap_or_default();
        Placement {
            token: Text::from(self.request.token.as_deref().unwrap_or_default()),
            cluster: tag(&ownership.cluster).into(),
            cluster_uid: Text::from(tag(&ownership.cluster_uid)),
            claim: tag(&ownership.claim).into(),
            pool: tag(&ownership.pool).into(),
            option: option(candidate),
            capacity_type,
            price: candidate.price,
        }
    }
}

/// Whether interruptible reservations are launched as such, and others as on-demand; capacity blocks are not simulated.
fn fits_market(target: Target, reservation: &Reservation, market: Option<&str>) -> bool {
    !reservation.capacity_block
        && match reservation.interruptible {
            true => target == Target::ReservedCapacity && market == Some("interruptible-capacity-reservation"),
            false => target == Target::OnDemand && market.is_none(),
        }
}

fn option(candidate: &Candidate) -> Override {
    let zone = Zone::from(candidate.zone.as_str());
    Override { instance_type: InstanceTypeName::from(candidate.instance_type.as_str()), zone }
}

fn pool(candidate: &Candidate, capacity_type: CapacityType) -> Pool<'_> {
    Pool { instance_type: &candidate.instance_type, zone: &candidate.zone, capacity_type: capacity_type.as_str() }
}
