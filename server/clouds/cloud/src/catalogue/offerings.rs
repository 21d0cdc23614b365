//! Zones, capacity types and prices of an instance type.

use std::sync::Arc;

use model::labels::{RESERVATION_ID, ZONE_ID};
use model::node_class::{NodeClassSettings, ReservationEntry};
use model::{CapacityType, Labels, MicroUsd, Offering, Reservation, Text, Zone};

use super::build_notes::BuildNotes;
use super::price::scale;
use super::region_options::RegionOptions;
use super::snapshot::{Quote, Region, Snapshot, TypeEntry, ZoneOffering};

const RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
const RESERVATION_INTERRUPTIBLE: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";

/// Label keys set by offerings, beside zone and capacity type. An offering without one of them
/// lacks the label; an unknown zone id counts as absent, because a plan must not rely on it.
pub(super) const KEYS: [&str; 4] = [ZONE_ID, RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE];

/// A zone of the region, for one NodeClass.
struct RegionZone {
    name: Zone,
    labels: Arc<Labels>,
    has_subnet: bool,
}

/// Builds the offerings of instance types in one region for one NodeClass.
pub(super) struct OfferingBuilder<'a> {
    region_options: &'a RegionOptions<'a>,
    settings: &'a NodeClassSettings,
    /// `None` when the snapshot does not know the region.
    region: Option<usize>,
    /// Region whose prices substitute unknown ones.
    reference_region: Option<(usize, Text)>,
    zones: Vec<RegionZone>,
    /// The snapshot has no zones for the region: every type is assumed offered in each of `zones`.
    assumed: bool,
    /// Spot price in thousandths of the on-demand price where no spot price is known.
    spot_per_mille: i64,
}

impl<'a> OfferingBuilder<'a> {
    pub(super) fn new(
        snapshot: &Snapshot,
        region_options: &'a RegionOptions<'a>,
        settings: &'a NodeClassSettings,
        tally: &mut BuildNotes,
    ) -> Self {
        let known = snapshot.zones(region_options.region);
        let assumed = known.is_empty();
        let names = if assumed { assumed_zones(region_options, settings, tally) } else { known.to_vec() };
        let region = snapshot.region_index(region_options.region);
        let reference_region = snapshot.reference_region().map(|index| (index, snapshot.regions[index].name.clone()));
        for subnet in settings.zones.iter().flatten().filter(|subnet| !names.contains(&subnet.name)) {
            let text = format!(
                "the catalogue has no zone {} in {}: the NodeClass's subnet there offers nothing",
                subnet.name, region_options.region
            );
            tally.notes.insert(text);
        }
        let known_region = region.map(|index| &snapshot.regions[index]);
        let zones = names.into_iter().map(|name| zone(name, known_region, settings)).collect();
        let own_share = known_region.and_then(|region| region.spot_per_mille);
        let spot_per_mille = own_share.unwrap_or(region_options.spot_per_mille);
        Self { region_options, settings, region, reference_region, zones, assumed, spot_per_mille }
    }

    /// All offerings of `entry` in the region, reserved capacity last. Without `launchable` none is
    /// available.
    pub(super) fn offerings(&self, entry: &TypeEntry, launchable: bool, tally: &mut BuildNotes) -> Vec<Offering> {
        let on_demand = self.on_demand(entry);
        let mut offerings = Vec::with_capacity(2 * self.zones.len());
        if self.assumed {
            let estimate = |quote: Quote| Quote { estimated: true, ..quote };
            for zone in &self.zones {
                let quote = on_demand.map(estimate);
                offerings.push(offering(zone, CapacityType::OnDemand, quote, launchable));
                if let Some(quote) = quote.filter(|_| entry.spot) {
                    offerings.push(offering(zone, CapacityType::Spot, Some(self.spot(quote)), launchable));
                }
            }
        } else if let Some(region) = self.region {
            for sale in entry.zone_offerings.iter().filter(|sale| sale.region == region) {
                let quote = self.quote(entry, sale, on_demand);
                if sale.capacity_type == CapacityType::OnDemand || quote.is_some() {
                    offerings.push(offering(&self.zones[sale.zone], sale.capacity_type, quote, launchable));
                }
            }
        }
        self.count_estimates(on_demand, &offerings, tally);
        let own = self.settings.reservations.iter().filter(|reservation| reservation.instance_type == entry.name);
        offerings.extend(own.map(|reservation| self.reserved(reservation, launchable, tally)));
        offerings
    }

    /// Price of one zone offering: its own, else the region's, else that of the reference region.
    /// Spot without a price is a share of on-demand in the same zone.
    pub(super) fn quote(&self, entry: &TypeEntry, sale: &ZoneOffering, on_demand: Option<Quote>) -> Option<Quote> {
        match (sale.price, sale.capacity_type) {
            (Some(quote), _) => Some(quote),
            (None, CapacityType::Spot) => {
                let beside = |other: &&ZoneOffering| {
                    (other.region, other.zone, other.capacity_type) == (sale.region, sale.zone, CapacityType::OnDemand)
                };
                let zonal = entry.zone_offerings.iter().filter(|other| other.price.is_some()).find(beside);
                zonal.and_then(|other| other.price).or(on_demand).map(|quote| self.spot(quote))
            }
            (None, _) => on_demand,
        }
    }

    /// On-demand price of the region, or its substitute.
    pub(super) fn on_demand(&self, entry: &TypeEntry) -> Option<Quote> {
        let known = self.region.and_then(|region| entry.regional_price(region));
        let elsewhere = || self.reference_region.as_ref().and_then(|(home, _)| entry.regional_price(*home));
        let preview = || self.region_options.preview_prices.get(&entry.name).copied();
        known
            .or_else(|| elsewhere().map(|quote| Quote { estimated: true, ..quote }))
            .or_else(|| preview().map(|price| Quote { price, estimated: false }))
    }

    fn spot(&self, on_demand: Quote) -> Quote {
        Quote { price: scale(on_demand.price, self.spot_per_mille, 1000), estimated: true }
    }

    fn reserved(&self, entry: &ReservationEntry, launchable: bool, tally: &mut BuildNotes) -> Offering {
        let known = self.zones.iter().find(|zone| zone.name == entry.zone);
        let subnet = known.map_or_else(|| subnet_id(&entry.zone, self.settings).is_some(), |zone| zone.has_subnet);
        let mut labels = known.map_or_else(Labels::new, |zone| Labels::clone(&zone.labels));
        labels.insert(RESERVATION_ID.into(), entry.id.clone());
        labels.insert(RESERVATION_TYPE.into(), entry.reservation_type.clone());
        labels.insert(RESERVATION_INTERRUPTIBLE.into(), if entry.interruptible { "true" } else { "false" }.into());
        if entry.count.is_none() && !entry.expiring {
            tally.notes.insert(format!(
                "reservation {}: one remaining instance is assumed; set the count with --reservation",
                entry.id
            ));
        }
        let remaining = entry.count.unwrap_or(1).max(0);
        Offering {
            zone: entry.zone.clone(),
            capacity_type: CapacityType::Reserved,
            price: MicroUsd(0),
            estimated: false,
            catalogue_price: None,
            available: launchable && subnet && !entry.expiring && remaining > 0,
            reservation: Some(Reservation { id: entry.id.clone(), remaining }),
            labels: labels.into(),
        }
    }

    fn count_estimates(&self, on_demand: Option<Quote>, offerings: &[Offering], tally: &mut BuildNotes) {
        let estimated = |capacity_type| move |o: &Offering| o.capacity_type == capacity_type && o.estimated;
        let elsewhere = on_demand.is_some_and(|quote| quote.estimated);
        tally.priced_elsewhere += usize::from(elsewhere && offerings.iter().any(estimated(CapacityType::OnDemand)));
        tally.spot_estimated |= offerings.iter().any(estimated(CapacityType::Spot));
    }

    /// Adds notes about estimates, after all types are built.
    pub(super) fn add_estimate_notes(&self, tally: &mut BuildNotes) {
        if let (true, Some((_, home))) = (tally.priced_elsewhere > 0, &self.reference_region) {
            tally.notes.insert(format!(
                "estimate: the catalogue has no on-demand price in {} for {} instance types; their prices follow those of {home}",
                self.region_options.region, tally.priced_elsewhere
            ));
        }
        if tally.spot_estimated && self.region_options.spot_wanted {
            let share = scale(MicroUsd(1_000_000), self.spot_per_mille, 1000);
            tally
                .notes
                .insert(format!("estimate: spot is priced at {share} of on-demand where no spot price is known"));
        }
    }
}

/// Zones assumed for a region that the snapshot lacks.
fn assumed_zones(
    region_options: &RegionOptions<'_>,
    settings: &NodeClassSettings,
    tally: &mut BuildNotes,
) -> Vec<Zone> {
    let subnets = settings.zones.iter().flatten().map(|subnet| &subnet.name);
    let mut zones: Vec<Zone> = region_options.extra_zones.iter().chain(subnets).cloned().collect();
    zones.sort();
    zones.dedup();
    tally.notes.insert(if zones.is_empty() {
        format!(
            "the catalogue has no zones in {}, and the input names none: nothing can be launched there",
            region_options.region
        )
    } else {
        let list = zones.join(", ");
        format!(
            "estimate: the catalogue has no zones in {}; every instance type is taken as offered in {list}",
            region_options.region
        )
    });
    zones
}

/// A zone with its id, which the NodeClass states or else the region. A zone without a subnet of
/// the NodeClass has no id (Karpenter AWS: offerings).
fn zone(name: Zone, region: Option<&Region>, settings: &NodeClassSettings) -> RegionZone {
    let subnet = subnet_id(&name, settings);
    let has_subnet = settings.zones.is_none() || subnet.is_some();
    let of_region = region.and_then(|region| region.zone_ids.get(&name)).filter(|_| has_subnet);
    let id = subnet.flatten().or(of_region);
    let labels: Labels = id.map(|id| (Text::from(ZONE_ID), id.clone())).into_iter().collect();
    RegionZone { name, labels: labels.into(), has_subnet }
}

/// The subnet of the NodeClass in `zone`, with the zone's id if known.
fn subnet_id<'s>(zone: &Zone, settings: &'s NodeClassSettings) -> Option<Option<&'s Text>> {
    let mut subnets = settings.zones.iter().flatten();
    subnets.find(|subnet| subnet.name == *zone).map(|subnet| subnet.id.as_ref())
}

/// An offering; without a price it is unavailable.
fn offering(zone: &RegionZone, capacity_type: CapacityType, quote: Option<Quote>, launchable: bool) -> Offering {
    Offering {
        zone: zone.name.clone(),
        capacity_type,
        price: quote.map_or(MicroUsd(0), |quote| quote.price),
        estimated: quote.is_some_and(|quote| quote.estimated),
        catalogue_price: None,
        available: launchable && zone.has_subnet && quote.is_some(),
        reservation: None,
        labels: Arc::clone(&zone.labels),
    }
}
