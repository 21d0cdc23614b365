//! Holds: created, committed and released in the store, through any replica. The owner of the cluster gives them room.

mod encode;
mod request;
mod watch;

pub(crate) use encode::hold;
pub(crate) use request::{Caller, asked};
pub(crate) use watch::watch;

use fleetwright_proto::v1;
use store::Store;
use store::holds::{HoldCaller, HoldCommand, HoldCreation, HoldRow, HoldState, NewHold};
use tonic::Status;

use crate::fleet::Access;
use api_messages::errors::{Reason, about, quota_exceeded, status, store_failed};
use api_messages::resource_names as names;

/// Creates a hold in `cluster`, which was chosen for the request.
///
/// # Errors
/// What is wrong with the request, or exceeds the quota of the client.
pub(crate) async fn create(
    store: &dyn Store,
    request: &v1::CreateHoldRequest,
    cluster: &str,
    caller: &Caller,
) -> Result<v1::Hold, Status> {
    let new = request::read(request, cluster, caller)?;
    if request.validate_only {
        return validate(store, &new).await;
    }
    match store.create_hold(&new).await.map_err(store_failed)? {
        HoldCreation::Created(row) => Ok(hold(&row)),
        HoldCreation::OtherRequest => Err(status(
            Reason::RequestIdReused,
            format!("request_id {:?} belongs to another request of {}; use a new one", new.request_id, new.client),
        )),
        HoldCreation::UnknownCluster => {
            Err(about(Reason::ClusterNotFound, &names::cluster(cluster), format!("there is no cluster {cluster:?}")))
        }
        HoldCreation::TooManyHolds(count) => Err(too_many(&new.client, count)),
        HoldCreation::TooExpensive(price) => Err(too_expensive(&new.client, price)),
    }
}

fn too_many(client: &str, count: u32) -> Status {
    let why = format!("{client} has {count} holds, which is its max-holds in the trust file; release one");
    quota_exceeded(&format!("client:{client}"), why)
}

fn too_expensive(client: &str, price: i64) -> Status {
    let held = model::MicroUsd(price);
    let why = format!(
        "{client} holds nodes for ${held} an hour, or asked for as much, which leaves nothing of its max-hold-usd-per-hour in \
         the trust file; release a hold, or ask for less with max_price_micro_usd_per_hour"
    );
    quota_exceeded(&format!("client:{client}"), why)
}

/// The hold as it would be, without a name: every check that its creation makes, and nothing written.
async fn validate(store: &dyn Store, new: &NewHold) -> Result<v1::Hold, Status> {
    let clusters = store.clusters().await.map_err(store_failed)?;
    if !clusters.contains(&new.cluster) {
        let name = names::cluster(&new.cluster);
        return Err(about(Reason::ClusterNotFound, &name, format!("there is no cluster {:?}", new.cluster)));
    }
    let live: Vec<HoldRow> = store.holds(None).await.map_err(store_failed)?;
    let own = live.iter().filter(|row| row.client == new.client && !row.state.has_ended());
    let count = u32::try_from(own.clone().count()).unwrap_or(u32::MAX);
    if new.quota.holds.is_some_and(|most| count >= most) {
        return Err(too_many(&new.client, count));
    }
    let price: i64 = own.flat_map(|row| &row.status.places).map(|place| place.price).sum();
    if new.quota.price.is_some_and(|most| price >= most) {
        return Err(too_expensive(&new.client, price));
    }
    Ok(encode::unnamed(new))
}

/// Commits a hold.
///
/// # Errors
/// `NOT_FOUND`, `PERMISSION_DENIED` for a hold of another client, `FAILED_PRECONDITION` when it is not active, `ABORTED` when it
/// has another etag, `RESOURCE_EXHAUSTED` when an admin cannot pay for it.
pub(crate) async fn commit(
    store: &dyn Store,
    request: &v1::CommitHoldRequest,
    (caller, access): (&Caller, &Access),
) -> Result<v1::Hold, Status> {
    let (cluster, id) = names::parse_child(&request.name, "holds")?;
    access.check(&cluster)?;
    let version = request::version(&request.etag)?;
    let by = caller.of_holds();
    if request.validate_only {
        let row = changeable(get(store, &request.name, access).await?, &by)?;
        return match row.state {
            HoldState::Active | HoldState::Committed => checked(row, version).map(|row| hold(&row)),
            _ => Err(not_active(&row)),
        };
    }
    answer(store.commit_hold((&cluster, &id), version, &by).await.map_err(store_failed)?, &request.name, &by)
}

/// Releases a hold.
///
/// # Errors
/// `NOT_FOUND`, `PERMISSION_DENIED` for a hold of another client, and `ABORTED` when it has another etag.
pub(crate) async fn release(
    store: &dyn Store,
    request: &v1::ReleaseHoldRequest,
    (caller, access): (&Caller, &Access),
) -> Result<v1::Hold, Status> {
    let (cluster, id) = names::parse_child(&request.name, "holds")?;
    access.check(&cluster)?;
    let version = request::version(&request.etag)?;
    let by = caller.of_holds();
    if request.validate_only {
        let row = changeable(get(store, &request.name, access).await?, &by)?;
        return checked(row, version).map(|row| hold(&row));
    }
    match store.release_hold((&cluster, &id), version, &by).await.map_err(store_failed)? {
        HoldCommand::Refused(row) => Err(changed(&row)),
        other => answer(other, &request.name, &by),
    }
}

fn answer(command: HoldCommand, name: &str, by: &HoldCaller) -> Result<v1::Hold, Status> {
    match command {
        HoldCommand::Done(row) => Ok(hold(&row)),
        HoldCommand::Refused(row) => Err(not_active(&row)),
        HoldCommand::OtherVersion(row) => Err(changed(&row)),
        HoldCommand::OtherClient(row) => Err(of_another(&row, by)),
        HoldCommand::TooManyHolds(count) => Err(too_many(&by.name, count)),
        HoldCommand::TooExpensive(price) => Err(too_expensive(&by.name, price)),
        HoldCommand::Unknown => Err(unknown(name)),
    }
}

fn changeable(row: HoldRow, by: &HoldCaller) -> Result<HoldRow, Status> {
    if by.may_change_hold_of(&row.client) { Ok(row) } else { Err(of_another(&row, by)) }
}

fn of_another(row: &HoldRow, by: &HoldCaller) -> Status {
    let name = names::child(&row.cluster, "holds", &row.id);
    let message = format!(
        "{name} was created by {}; only its creator and clients of scope admin commit or release it, and {} is neither",
        row.client, by.name
    );
    about(Reason::PermissionDenied, &name, message)
}

/// A hold by its name.
///
/// # Errors
/// `NOT_FOUND`, `PERMISSION_DENIED` if the client is confined to other clusters, or the store does not answer.
pub(crate) async fn get(store: &dyn Store, name: &str, access: &Access) -> Result<HoldRow, Status> {
    let (cluster, id) = names::parse_child(name, "holds")?;
    access.check(&cluster)?;
    store.hold(&cluster, &id).await.map_err(store_failed)?.ok_or_else(|| unknown(name))
}

fn checked(row: HoldRow, version: Option<u64>) -> Result<HoldRow, Status> {
    match version.filter(|version| *version != row.version) {
        None => Ok(row),
        Some(_) => Err(changed(&row)),
    }
}

fn unknown(name: &str) -> Status {
    about(Reason::NotFound, name, format!("there is no hold {name:?}; holds are found for a week after their end"))
}

fn changed(row: &HoldRow) -> Status {
    let name = names::child(&row.cluster, "holds", &row.id);
    about(Reason::EtagMismatch, &name, format!("the hold has etag \"{}\" now; get it, and decide again", row.version))
}

fn not_active(row: &HoldRow) -> Status {
    let name = names::child(&row.cluster, "holds", &row.id);
    let state = encode::state(row.state).as_str_name();
    let state = state.strip_prefix("HOLD_STATE_").unwrap_or(state);
    let why = if row.status.message.is_empty() { String::new() } else { format!(" ({})", row.status.message) };
    about(Reason::WrongState, &name, format!("the hold is {state}{why}; only an ACTIVE hold is committed"))
}
