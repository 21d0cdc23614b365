//! The catalogue of an account and region as refreshes leave it: what of an answer is used, and what stays. Without I/O.
//!
//! - What was never read is that of the catalogue that the server started with ([`RefreshedCatalogue::new`]).
//! - What an answer lacks stays: an on-demand price for ever, a spot price for [`SPOT_KEPT`], an instance type until a
//!   second answer lacks it as well. An answer that lacks more than a tenth of the known types is refused.
//! - A price that is not above zero, or that differs absurdly from the known one, is refused (`plausible`).
//! - A spot price replaces the one in use when it differs from it by at least [`SPOT_CHANGE_PER_MILLE`]. Spot prices of
//!   many types move a little all the time, and each catalogue that differs is compiled again by all clusters.

mod plausible;

use std::collections::{BTreeMap, BTreeSet};

use model::{InstanceTypeName, MicroUsd, Millis, Text, Timestamp, Zone};

use super::discovered::{DiscoveredRegion, DiscoveredType};
use super::reprice::{OnDemandPrices, RegionPrices, SpotPrices};
use super::snapshot::Snapshot;
pub use plausible::RefusedPrice;
use plausible::{check_on_demand, check_spot};

/// A spot price that answers lack is used for this long: EC2 states the current price of each pool that it sells.
pub const SPOT_KEPT: Millis = Millis::from_hours(24);

/// Minimum difference between a spot price and the one in use, in thousandths of the latter.
pub const SPOT_CHANGE_PER_MILLE: i64 = 10;

/// An answer that lacks more than this part of the known types is incomplete.
const LOST_TYPES_PART: usize = 10;

/// What is refreshed by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefreshKind {
    /// Instance types, and the zones that offer them.
    InstanceTypes,
    /// On-demand prices.
    OnDemandPrices,
    /// Spot prices.
    SpotPrices,
}

impl RefreshKind {
    /// All kinds, in the order in which they are refreshed.
    pub const ALL: [Self; 3] = [Self::InstanceTypes, Self::OnDemandPrices, Self::SpotPrices];

    /// Name in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InstanceTypes => "instance_types",
            Self::OnDemandPrices => "on_demand",
            Self::SpotPrices => "spot",
        }
    }
}

/// What came of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accepted {
    /// Whether [`RefreshedCatalogue::snapshot`] has another result.
    pub changed: bool,
    /// Prices that are not used.
    pub refused: Vec<RefusedPrice>,
}

/// Too many of the known types are missing in an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the answer has {found} instance types and lacks {missing} of {known} known ones; the known ones stay. If the region \
     really sells so few, restart the server"
)]
pub struct IncompleteTypes {
    found: usize,
    missing: usize,
    known: usize,
}

/// A spot price in use, and when an answer had one for its pool last.
#[derive(Debug, Clone, Copy)]
struct SpotPrice {
    price: MicroUsd,
    seen: Timestamp,
}

type Pool = (InstanceTypeName, Zone);

/// The catalogue of one account and region.
#[derive(Debug)]
pub struct RefreshedCatalogue {
    region: Text,
    /// What is not read.
    start: Snapshot,
    types: Option<DiscoveredRegion>,
    /// Known types that the last answer lacks.
    missing: BTreeSet<InstanceTypeName>,
    on_demand: OnDemandPrices,
    on_demand_date: Option<Text>,
    spot: Option<BTreeMap<Pool, SpotPrice>>,
    spot_date: Option<Text>,
}

impl RefreshedCatalogue {
    /// The catalogue of `region` before the first refresh.
    #[must_use]
    pub fn new(region: &str, start: Snapshot) -> Self {
        Self {
            region: Text::from(region),
            start,
            types: None,
            missing: BTreeSet::new(),
            on_demand: OnDemandPrices::new(),
            on_demand_date: None,
            spot: None,
            spot_date: None,
        }
    }

    /// Uses the types and zones of a complete answer; their prices are not used. Types of `unreadable`, which the answer
    /// describes incompletely, stay as they are known.
    ///
    /// # Errors
    /// The answer lacks too many known types; nothing changes.
    pub fn accept_types(
        &mut self,
        mut answer: DiscoveredRegion,
        unreadable: &BTreeSet<InstanceTypeName>,
    ) -> Result<Accepted, IncompleteTypes> {
        without_prices(&mut answer);
        let known = self.types.as_ref().map_or(&[][..], |region| &region.types);
        let found: BTreeSet<&InstanceTypeName> = answer.types.iter().map(|one| &one.name).collect();
        let absent: Vec<&DiscoveredType> = known.iter().filter(|one| !found.contains(&one.name)).collect();
        if absent.len() * LOST_TYPES_PART > known.len() {
            let (found, missing, known) = (found.len(), absent.len(), known.len());
            return Err(IncompleteTypes { found, missing, known });
        }
        let stays = |one: &&&DiscoveredType| unreadable.contains(&one.name) || !self.missing.contains(&one.name);
        let kept: Vec<DiscoveredType> = absent.iter().filter(stays).map(|one| (**one).clone()).collect();
        self.missing = kept.iter().map(|one| one.name.clone()).collect();
        answer.types.extend(kept);
        answer.types.sort_by(|a, b| a.name.cmp(&b.name));
        let changed = self.types.as_ref() != Some(&answer);
        self.types = Some(answer);
        Ok(Accepted { changed, refused: Vec::new() })
    }

    /// Uses the on-demand prices of an answer that was read at `date`.
    pub fn accept_on_demand(&mut self, answer: OnDemandPrices, date: &str) -> Accepted {
        let mut accepted = Accepted::default();
        for (name, price) in answer {
            match check_on_demand(price, self.on_demand_price(&name)) {
                Ok(()) => accepted.changed |= self.on_demand.insert(name, price) != Some(price),
                Err(known) => accepted.refused.push(RefusedPrice { item: name.to_string(), price, known }),
            }
        }
        if accepted.changed {
            self.on_demand_date = Some(Text::from(date));
        }
        accepted
    }

    /// Uses the spot prices of an answer that was read at `now`, which is `date` in words.
    pub fn accept_spot(&mut self, answer: SpotPrices, now: Timestamp, date: &str) -> Accepted {
        let mut accepted = Accepted { changed: self.spot.is_none(), refused: Vec::new() };
        let mut used = self.spot.take().unwrap_or_default();
        for (name, zones) in answer {
            let on_demand = self.on_demand_price(&name);
            for (zone, price) in zones {
                let pool = (name.clone(), zone);
                let known = used.get(&pool).map(|known| known.price);
                if let Err(known) = check_spot(price, known, on_demand) {
                    let item = format!("{} in {} as spot", pool.0, pool.1);
                    accepted.refused.push(RefusedPrice { item, price, known });
                    continue;
                }
                let kept = known.filter(|known| is_close(price, *known));
                accepted.changed |= kept.is_none();
                used.insert(pool, SpotPrice { price: kept.unwrap_or(price), seen: now });
            }
        }
        let before = used.len();
        used.retain(|_, known| now.duration_since(known.seen) <= SPOT_KEPT);
        accepted.changed |= used.len() != before;
        self.spot = Some(used);
        if accepted.changed {
            self.spot_date = Some(Text::from(date));
        }
        accepted
    }

    /// The catalogue with everything that is in use.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let base = match &self.types {
            Some(region) => Snapshot::discovered(region.clone(), &self.start),
            None => self.start.clone(),
        };
        let prices =
            RegionPrices { on_demand: self.on_demand.clone(), spot: self.spot_prices(), date: self.price_date() };
        base.with_prices(&self.region, &prices)
    }

    /// Number of types that are in use though the last answer lacks them.
    #[must_use]
    pub fn missing_types(&self) -> usize {
        self.missing.len()
    }

    fn on_demand_price(&self, name: &InstanceTypeName) -> Option<MicroUsd> {
        self.on_demand.get(name).copied().or_else(|| self.start.on_demand_price(&self.region, name))
    }

    fn spot_prices(&self) -> Option<SpotPrices> {
        let mut prices = SpotPrices::new();
        for ((name, zone), known) in self.spot.as_ref()? {
            prices.entry(name.clone()).or_default().insert(zone.clone(), known.price);
        }
        Some(prices)
    }

    /// When the newest on-demand price and the newest spot price were read; `None` when neither was.
    fn price_date(&self) -> Option<Text> {
        let start = self.start.region(&self.region).and_then(|region| region.price_date.as_ref());
        let on_demand = self.on_demand_date.as_ref().or(start).map_or("an unknown day", |date| date.as_ref());
        match (&self.on_demand_date, &self.spot_date) {
            (None, None) => None,
            (Some(_), None) => Some(Text::from(on_demand)),
            (_, Some(spot)) => Some(Text::from(format!("{on_demand}, spot prices of {spot}"))),
        }
    }
}

/// Prices are refreshed by themselves.
fn without_prices(region: &mut DiscoveredRegion) {
    region.price_date = None;
    for found in &mut region.types {
        (found.on_demand_price, found.spot_prices) = (None, None);
    }
}

fn is_close(price: MicroUsd, used: MicroUsd) -> bool {
    (price.0 - used.0).abs().saturating_mul(1_000) < used.0.saturating_mul(SPOT_CHANGE_PER_MILLE)
}

#[cfg(test)]
mod tests;
