//! What the region sells at which price, and the network and images of the account.

use std::collections::{BTreeMap, BTreeSet};

use cloud::catalogue::parse_usd;
use model::{MicroUsd, Timestamp};

use super::instance_types;
use crate::catalogue::{RegionCatalogue, TypeRow};
use crate::settings::{AccountSettings, Image, Reservation, SecurityGroup, Subnet};

/// The settings of the account, with indexes.
#[derive(Debug)]
pub(crate) struct Region {
    settings: AccountSettings,
    offered: BTreeSet<(String, String)>,
    types: BTreeMap<String, TypeRow>,
    /// Linux prices by type and zone, each with its beginning in milliseconds since 1970, oldest first.
    spot: BTreeMap<(String, String), Vec<(i64, MicroUsd)>>,
    image_index: BTreeMap<String, usize>,
}

impl Region {
    pub(crate) fn new(settings: AccountSettings) -> Self {
        let catalogue = &settings.catalogue;
        let mut spot: BTreeMap<(String, String), Vec<(i64, MicroUsd)>> = BTreeMap::new();
        for row in catalogue.spot.iter().filter(|row| row.product.starts_with("Linux/UNIX")) {
            let since = row.since.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_millisecond);
            if let Some(price) = parse_usd(&row.usd) {
                spot.entry((row.instance_type.clone(), row.zone.clone())).or_default().push((since, price));
            }
        }
        spot.values_mut().for_each(|prices| prices.sort_unstable());
        let named = |row: &TypeRow| Some((row.get("name")?.clone(), row.clone()));
        Self {
            offered: catalogue.offerings.iter().cloned().collect(),
            types: catalogue.types.iter().filter_map(named).collect(),
            spot,
            image_index: settings.images.iter().enumerate().map(|(at, image)| (image.id.clone(), at)).collect(),
            settings,
        }
    }

    pub(crate) fn settings(&self) -> &AccountSettings {
        &self.settings
    }

    pub(crate) fn catalogue(&self) -> &RegionCatalogue {
        &self.settings.catalogue
    }

    pub(crate) fn instance_type(&self, name: &str) -> Option<&TypeRow> {
        self.types.get(name)
    }

    pub(crate) fn is_offered(&self, instance_type: &str, zone: &str) -> bool {
        self.offered.contains(&(instance_type.to_owned(), zone.to_owned()))
    }

    /// Architecture as EC2 names it.
    pub(crate) fn architecture(&self, instance_type: &str) -> &str {
        self.instance_type(instance_type).map_or("x86_64", instance_types::architecture)
    }

    pub(crate) fn on_demand_price(&self, instance_type: &str) -> Option<MicroUsd> {
        self.settings.catalogue.on_demand.get(instance_type).copied()
    }

    /// The newest spot price at `now`.
    pub(crate) fn spot_price(&self, instance_type: &str, zone: &str, now: Timestamp) -> Option<MicroUsd> {
        let prices = self.spot.get(&(instance_type.to_owned(), zone.to_owned()))?;
        prices.iter().rev().find(|(since, _)| *since <= now.as_millis()).map(|(_, price)| *price)
    }

    pub(crate) fn zone_id(&self, zone: &str) -> &str {
        self.settings.catalogue.zone_id(zone).unwrap_or_default()
    }

    pub(crate) fn subnet(&self, id: &str) -> Option<&Subnet> {
        self.settings.subnets.iter().find(|subnet| subnet.id == id)
    }

    /// A subnet of the zone, where a launch names none.
    pub(crate) fn subnet_in(&self, zone: &str) -> Option<&Subnet> {
        self.settings.subnets.iter().find(|subnet| subnet.zone == zone)
    }

    pub(crate) fn security_group(&self, id: &str) -> Option<&SecurityGroup> {
        self.settings.security_groups.iter().find(|group| group.id == id)
    }

    /// The group named `default` of a VPC.
    pub(crate) fn default_group(&self, vpc: &str) -> Option<&SecurityGroup> {
        self.settings.security_groups.iter().find(|group| group.vpc == vpc && group.name == "default")
    }

    pub(crate) fn image(&self, id: &str) -> Option<&Image> {
        self.image_index.get(id).map(|at| &self.settings.images[*at])
    }

    pub(crate) fn reservation(&self, id: &str) -> Option<&Reservation> {
        self.settings.reservations.iter().find(|reservation| reservation.id == id)
    }
}
