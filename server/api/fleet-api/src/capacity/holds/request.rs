//! A request for a hold as the row that is written.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use auth::{Client, Scope};
use controller::holds::HeldPods;
use decision_log::held_pods;
use fleetwright_proto::v1;
use prost::Message;
use sha2::{Digest, Sha256};
use store::clock;
use store::holds::{HoldCaller, HoldQuota, NewHold};
use tonic::Status;

use super::super::pod_sets;
use api_messages::errors::invalid_field;

/// Who asks, and what the trust file grants.
pub(crate) struct Caller {
    pub name: String,
    /// The authenticated client; `None` without authentication.
    pub client: Option<Client>,
}

/// The field of the request with the hold.
const HOLD: &str = "hold";

impl Caller {
    /// As the store judges it. Without authentication everybody has every right.
    pub(super) fn of_holds(&self) -> HoldCaller {
        HoldCaller {
            name: self.name.clone(),
            is_admin: self.client.as_ref().is_none_or(|client| client.scope == Scope::Admin),
            quota: self.quota(),
        }
    }

    fn quota(&self) -> HoldQuota {
        let quota = self.client.as_ref().map(|client| client.quota).unwrap_or_default();
        HoldQuota { holds: quota.holds, price: quota.hold_price }
    }
}

/// How long a hold lasts without a `ttl`.
const DEFAULT_TTL: Duration = Duration::from_secs(600);

/// Largest size of the pod sets of a hold, which is kept with its row.
const MAX_BYTES: usize = 256 << 10;

/// Shortest and longest time that a hold lasts without being committed.
const TTL: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(24 * 3_600)];

/// The pod sets of a hold as its row keeps them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredPodSets {
    #[prost(message, repeated, tag = "3")]
    pub(super) pod_sets: Vec<v1::PodSet>,
}

/// The hold that a request states.
///
/// # Errors
/// `INVALID_ARGUMENT` if there is none.
pub fn asked(request: &v1::CreateHoldRequest) -> Result<&v1::Hold, Status> {
    request.hold.as_ref().ok_or_else(|| invalid_field("hold", "missing, but required"))
}

/// The hold that `request` asks for, in `cluster`.
pub(super) fn read(request: &v1::CreateHoldRequest, cluster: &str, caller: &Caller) -> Result<NewHold, Status> {
    let asked = asked(request)?;
    let sets = pod_sets::read_below(HOLD, &asked.pod_sets)?;
    let dedicated = match asked.kind() {
        v1::HoldKind::Dedicated => true,
        v1::HoldKind::Shared => false,
        v1::HoldKind::Unspecified => {
            return Err(invalid_field("hold.kind", "missing, allowed: HOLD_KIND_DEDICATED or HOLD_KIND_SHARED"));
        }
    };
    let max_price = match asked.max_price_micro_usd_per_hour {
        0 => None,
        price if price > 0 => Some(price),
        price => {
            return Err(invalid_field(
                "hold.max_price_micro_usd_per_hour",
                format!("is {price}; it must not be negative"),
            ));
        }
    };
    let held = sets.into_iter().map(|set| HeldPods {
        name: set.name,
        namespace: set.namespace,
        shape: Arc::new(set.shape),
        labels: Arc::new(set.labels),
        count: set.count,
    });
    let pods = held_pods::encode(&held.collect::<Vec<HeldPods>>());
    let kept = StoredPodSets { pod_sets: asked.pod_sets.clone() };
    if kept.encoded_len() > MAX_BYTES {
        let size = kept.encoded_len() >> 10;
        return Err(invalid_field(
            "hold.pod_sets",
            format!("take {size} KiB, allowed: at most {} KiB", MAX_BYTES >> 10),
        ));
    }
    Ok(NewHold {
        // The value of a label, which begins with a letter.
        id: format!("h-{:016x}", random() as u64),
        cluster: cluster.to_owned(),
        client: caller.name.clone(),
        request_id: request_id(&request.request_id)?,
        fingerprint: fingerprint(request, asked),
        pod_sets: kept.encode_to_vec(),
        pods,
        dedicated,
        ttl_ms: i64::try_from(ttl(asked.ttl.as_ref())?.as_millis()).unwrap_or(i64::MAX),
        max_price,
        quota: caller.quota(),
    })
}

/// The UUID of a request, or a new one.
fn request_id(given: &str) -> Result<String, Status> {
    if given.is_empty() {
        return Ok(format!("{:032x}", random()));
    }
    let is_valid = given.len() <= 64 && given.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if !is_valid {
        return Err(invalid_field("request_id", "must be a UUID: letters, digits and '-', at most 64 characters"));
    }
    Ok(given.to_ascii_lowercase())
}

/// Digest of what is asked for. Fields that the server sets are ignored.
fn fingerprint(request: &v1::CreateHoldRequest, asked: &v1::Hold) -> Vec<u8> {
    let hold = v1::Hold {
        kind: asked.kind,
        pod_sets: asked.pod_sets.clone(),
        ttl: asked.ttl,
        max_price_micro_usd_per_hour: asked.max_price_micro_usd_per_hour,
        ..v1::Hold::default()
    };
    let (parent, clusters) = (request.parent.clone(), request.clusters.clone());
    let asked = v1::CreateHoldRequest { parent, clusters, hold: Some(hold), ..v1::CreateHoldRequest::default() };
    Sha256::digest(asked.encode_to_vec()).to_vec()
}

fn ttl(asked: Option<&prost_types::Duration>) -> Result<Duration, Status> {
    let Some(asked) = asked else { return Ok(DEFAULT_TTL) };
    let [least, most] = TTL;
    match Duration::try_from(*asked) {
        Ok(ttl) if (least..=most).contains(&ttl) => Ok(ttl),
        _ => Err(invalid_field(
            "hold.ttl",
            format!("must be {} seconds to {} hours", least.as_secs(), most.as_secs() / 3_600),
        )),
    }
}

/// The version that an etag names; `None` for any.
pub(super) fn version(etag: &str) -> Result<Option<u64>, Status> {
    if etag.is_empty() {
        return Ok(None);
    }
    let number = etag.trim_matches('"').parse();
    number.map(Some).map_err(|_| invalid_field("etag", "is none of a hold; pass the etag of the hold that is meant"))
}

/// Bits that no other call has.
fn random() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(clock::now().as_millis()));
    half() << 64 | half()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_the_same_whatever_its_id_and_another_for_any_other_field() {
        let of = |id: &str, hold: v1::Hold| {
            let request = v1::CreateHoldRequest {
                request_id: id.to_owned(),
                parent: "clusters/c".to_owned(),
                validate_only: id == "b",
                hold: Some(hold),
                ..Default::default()
            };
            fingerprint(&request, asked(&request).unwrap())
        };
        let hold = v1::Hold { kind: v1::HoldKind::Shared.into(), ..Default::default() };
        assert_eq!(of("a", hold.clone()), of("b", hold.clone()));
        // A client may send back a hold that it has got: what the server sets in it asks for nothing.
        assert_eq!(of("a", hold.clone()), of("a", v1::Hold { etag: "7".to_owned(), ..hold.clone() }));
        assert_ne!(of("a", hold.clone()), of("a", v1::Hold { max_price_micro_usd_per_hour: 1, ..hold }));
    }

    #[test]
    fn times_and_etags_have_bounds() {
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        assert_eq!(ttl(None).unwrap(), Duration::from_secs(600));
        assert_eq!(ttl(seconds(10).as_ref()).unwrap(), Duration::from_secs(10));
        for refused in [-1, 0, 9, 86_401, i64::MAX] {
            assert_eq!(ttl(seconds(refused).as_ref()).unwrap_err().code(), tonic::Code::InvalidArgument, "{refused}");
        }
        assert_eq!(version("").unwrap(), None);
        assert_eq!(version("7").unwrap(), Some(7));
        assert!(version("seven").is_err() && version("-1").is_err());
        assert_eq!(request_id("7D444840-9DC0-11D1-B245-5FFDCE74FAD2").unwrap(), "7d444840-9dc0-11d1-b245-5ffdce74fad2");
        assert!(request_id("a b").is_err() && request_id(&"a".repeat(65)).is_err());
        assert_ne!(request_id("").unwrap(), request_id("").unwrap());
    }
}
