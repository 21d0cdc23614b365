//! Refreshes the catalogue of an account and region while a server runs: what is due, what was read, and the last good
//! values.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_ec2::primitives::{DateTime, DateTimeFormat};
use cloud::catalogue::Snapshot;
use cloud::catalogue::refreshed::{Accepted, RefreshKind, RefreshedCatalogue};
use cloud::provider::{CloudError, is_denied};
use model::{InstanceTypeName, Millis, Timestamp};

use super::{OFFERINGS, TYPES, TypesRead, ZONES};
use crate::call_error::{CallError, CallErrorClass};
use crate::provider::Ec2Cloud;
use crate::slot::{Slot, spread};

/// How often each kind is read; `None` is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    pub instance_types: Option<Duration>,
    pub on_demand_prices: Option<Duration>,
    pub spot_prices: Option<Duration>,
}

impl Intervals {
    fn of(&self, kind: RefreshKind) -> Option<Duration> {
        match kind {
            RefreshKind::InstanceTypes => self.instance_types,
            RefreshKind::OnDemandPrices => self.on_demand_prices,
            RefreshKind::SpotPrices => self.spot_prices,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refresh {
    pub kind: RefreshKind,
    /// What was used of the answer and what was not, or what failed and what to do, in a sentence.
    pub result: Result<Used, String>,
}

/// What was used of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Used {
    /// Whether [`CatalogueRefresher::snapshot`] has another result.
    pub changed: bool,
    /// Prices that are not used, and types that cannot be read: a sentence each.
    pub refused: Vec<String>,
}

#[derive(Debug)]
struct Refreshed {
    kind: RefreshKind,
    interval: Millis,
    slot: Slot<()>,
}

/// The catalogue of the region of an [`Ec2Cloud`]. A failed read keeps the last values.
#[derive(Debug)]
pub struct CatalogueRefresher {
    catalogue: RefreshedCatalogue,
    refreshed: Vec<Refreshed>,
    spread: i64,
}

impl CatalogueRefresher {
    /// Everything that has an interval is due, and the catalogue is `start` until it was read. Refreshers with different
    /// `name` are spread over time.
    #[must_use]
    pub fn new(region: &str, name: &str, start: Snapshot, intervals: &Intervals) -> Self {
        let refreshed = |kind| {
            let interval = i64::try_from(intervals.of(kind)?.as_millis()).unwrap_or(i64::MAX);
            Some(Refreshed { kind, interval: Millis::new(interval), slot: Slot::default() })
        };
        Self {
            catalogue: RefreshedCatalogue::new(region, start),
            refreshed: RefreshKind::ALL.into_iter().filter_map(refreshed).collect(),
            spread: spread(&(region, name)),
        }
    }

    /// When the next read is due; `None` when nothing is read.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        self.refreshed.iter().map(|one| one.slot.due()).min()
    }

    /// Reads what is due, each kind by itself: the failure of one stops no other, and is repeated after five seconds, and
    /// then after a wait that doubles up to five minutes. `hardware` has what no API tells ([`super::Supplement`]).
    pub async fn refresh(&mut self, cloud: &Ec2Cloud, hardware: &Snapshot) -> Vec<Refresh> {
        let mut done = Vec::new();
        for index in 0..self.refreshed.len() {
            if !self.refreshed[index].slot.is_due(cloud.now()) {
                continue;
            }
            let kind = self.refreshed[index].kind;
            let result = self.read(kind, cloud, hardware).await;
            let Refreshed { interval, slot, .. } = &mut self.refreshed[index];
            match &result {
                Ok(_) => slot.succeed((), cloud.now(), *interval, self.spread),
                Err(error) => slot.fail(error.clone(), cloud.now(), self.spread),
            }
            done.push(Refresh { kind, result: result.map_err(|error| error.to_string()) });
        }
        done
    }

    /// The catalogue with everything that is in use.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.catalogue.snapshot()
    }

    async fn read(&mut self, kind: RefreshKind, cloud: &Ec2Cloud, hardware: &Snapshot) -> Result<Used, CallError> {
        let (accepted, left_out) = match kind {
            RefreshKind::InstanceTypes => {
                let TypesRead { region, left_out } = cloud.types_and_zones(hardware).await.map_err(of_types)?;
                let unreadable: BTreeSet<InstanceTypeName> =
                    left_out.iter().map(|one| InstanceTypeName::from(&*one.item)).collect();
                let accepted = self.catalogue.accept_types(region, &unreadable);
                (accepted.map_err(|error| incomplete(&error.to_string()))?, left_out)
            }
            RefreshKind::OnDemandPrices => {
                let read = cloud.read_on_demand_prices().await?;
                (self.catalogue.accept_on_demand(read.prices, &date(cloud.now())), read.left_out)
            }
            RefreshKind::SpotPrices => {
                let read = cloud.read_spot_prices().await?;
                (self.catalogue.accept_spot(read.prices, cloud.now(), &date(cloud.now())), read.left_out)
            }
        };
        let Accepted { changed, refused } = accepted;
        let refused = refused.iter().map(ToString::to_string);
        Ok(Used { changed, refused: refused.chain(left_out.iter().map(ToString::to_string)).collect() })
    }
}

fn incomplete(why: &str) -> CallError {
    CallError::new("ec2:DescribeInstanceTypes", CallErrorClass::Unclear, "IncompleteAnswer", why)
}

/// The error of a call for types or zones as that of a lookup.
fn of_types(error: CloudError) -> CallError {
    let action = |operation: &str| match operation {
        OFFERINGS => "ec2:DescribeInstanceTypeOfferings",
        ZONES => "ec2:DescribeAvailabilityZones",
        _ => "ec2:DescribeInstanceTypes",
    };
    match error {
        CloudError::Refused { operation, code, message } => {
            let class = if is_denied(&code) { CallErrorClass::Denied } else { CallErrorClass::Refused };
            CallError::new(action(&operation), class, &code, message)
        }
        CloudError::RequestLimitExceeded { .. } => {
            CallError::new(action(TYPES), CallErrorClass::Throttled, "RequestLimitExceeded", "")
        }
        other => CallError::new(action(TYPES), CallErrorClass::Unclear, "no answer", other.to_string()),
    }
}

/// A point in time in UTC, to the second.
fn date(at: Timestamp) -> String {
    DateTime::from_secs(at.as_millis().div_euclid(1_000)).fmt(DateTimeFormat::DateTime).unwrap_or_default()
}
