//! Lists of what the store has: decisions, offerings, holds, freezes, the audit log. Any replica answers alike.

use std::cmp::Ordering;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fleetwright_proto::v1;
use listing::{ListRequest, Query};
use model::Timestamp;
use replica::offerings::region_and_account;
use sha2::{Digest, Sha256};
use store::clock;
use store::guardrails::{AuditEntry, AuditRow};
use store::lease::Scope;
use store::log::{DecisionFilter, StoredDecision};
use store::offerings::OfferingRow;
use tonic::Status;

use super::access::Access;
use super::api::FleetApi;
use super::lists::invalid;
use super::watches::{Watch, filter};
use super::{decision_effects, encode, operations, schemas};
use crate::capacity::holds;
use api_messages::errors::{self, store_failed};
use api_messages::{enum_values, resource_names as names};

/// Default and greatest page size.
const PAGE: (u32, u32) = (100, 1_000);

/// Rows of the store that are read at one time, and for one page at most: the rest is on the next pages.
const SCANNED: (u32, u32) = (200, 4_000);

/// Offerings that changed within this time are listed.
const OFFERINGS_WITHIN: std::time::Duration = std::time::Duration::from_secs(24 * 3_600);

/// # Errors
/// `INVALID_ARGUMENT` if it is negative.
pub(super) fn page_size(asked: i32) -> Result<u32, Status> {
    match u32::try_from(asked) {
        Ok(0) => Ok(PAGE.0),
        Ok(size) => Ok(size.min(PAGE.1)),
        Err(_) => Err(errors::invalid_argument("page_size", format!("page_size is {asked}; it must not be negative"))),
    }
}

/// A token of a list that is ordered by descending numbers: the last number, for these arguments only.
fn number_token(number: u64, arguments: &[&str]) -> String {
    URL_SAFE_NO_PAD.encode(format!("{number} {}", fingerprint(arguments)))
}

fn malformed_page_token() -> Status {
    let sentence = "page_token is none of this list: pass it with the arguments of the first page";
    errors::invalid_argument("page_token", sentence)
}

fn read_number_token(token: &str, arguments: &[&str]) -> Result<Option<u64>, Status> {
    if token.is_empty() {
        return Ok(None);
    }
    let refused = malformed_page_token;
    let text =
        URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(refused)?;
    let (number, of) = text.split_once(' ').ok_or_else(refused)?;
    if of != fingerprint(arguments) {
        return Err(refused());
    }
    number.parse().map(Some).map_err(|_| refused())
}

/// The end of the year 9999, in milliseconds since 1970.
const LATEST_MS: i64 = 253_402_300_799_999;

/// Where a list that is ordered by start and name continues, and the time that it is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StartToken {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
    pub(super) start_ms: i64,
    pub(super) name: String,
}

impl StartToken {
    /// The token's text, for the list of this parent only.
    pub(super) fn write(&self, parent: &str) -> String {
        let Self { from_ms, to_ms, start_ms, name } = self;
        URL_SAFE_NO_PAD.encode(format!("{from_ms} {to_ms} {start_ms} {name} {}", fingerprint(&[parent])))
    }

    /// # Errors
    /// `INVALID_ARGUMENT` if it is none of the list of this parent.
    pub(super) fn read(token: &str, parent: &str) -> Result<Option<Self>, Status> {
        if token.is_empty() {
            return Ok(None);
        }
        let text = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let parse = |text: String| {
            let [from, to, start, name, of] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
            let (from_ms, to_ms, start_ms) = (from.parse().ok()?, to.parse().ok()?, start.parse().ok()?);
            // The fingerprint is no secret, so the times may be any.
            let [from_ms, to_ms, start_ms] = [from_ms, to_ms, start_ms].map(|ms: i64| ms.clamp(0, LATEST_MS));
            (of == fingerprint(&[parent])).then(|| Self { from_ms, to_ms, start_ms, name: name.to_owned() })
        };
        text.and_then(parse).map(Some).ok_or_else(malformed_page_token)
    }
}

fn fingerprint(arguments: &[&str]) -> String {
    let mut digest = Sha256::new();
    for argument in arguments {
        digest.update(argument.len().to_le_bytes());
        digest.update(argument);
    }
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn decision(stored: StoredDecision, full: bool) -> v1::Decision {
    let cluster = stored.scope.cluster_name().unwrap_or_default();
    let decided_at = Timestamp::from_millis(stored.decision.decided_at_ms);
    let reasons = stored.decision.report.lines().filter(|_| full).map(str::to_owned).collect();
    v1::Decision {
        name: names::child(cluster, "decisions", &stored.decision.number.to_string()),
        number: api_messages::signed(stored.decision.number),
        decide_time: Some(api_messages::from_millis(stored.decision.decided_at_ms)),
        trace_id: encode::trace_id(&cluster.into(), stored.decision.number, decided_at),
        kind: enum_values::decision_kind(&stored.decision.kind).into(),
        summary: stored.decision.summary,
        reasons,
        ..decision_effects::stored(&stored.decision.effects)
    }
}

fn offering(row: OfferingRow, scope: &Scope) -> v1::Offering {
    let OfferingRow { key, failures, refused_ms, until_ms, reason, .. } = row;
    let account = key.account.unwrap_or_default();
    let (region, of_scope) = region_and_account(scope);
    let (instance_type, zone, capacity_type) = (&key.instance_type, &key.zone, &key.capacity_type);
    let shared = if account.is_empty() { "all" } else { &account };
    v1::Offering {
        name: format!("offerings/{region}.{of_scope}.{shared}.{zone}.{instance_type}.{capacity_type}.{}", key.size),
        account,
        scope: scope.key(),
        instance_type: key.instance_type,
        zone_id: key.zone,
        capacity_type: enum_values::capacity_type(&key.capacity_type).into(),
        min_count: key.size.try_into().unwrap_or(i32::MAX),
        failure_count: failures.try_into().unwrap_or(i32::MAX),
        refuse_time: Some(api_messages::from_millis(refused_ms)),
        exclude_until_time: Some(api_messages::from_millis(until_ms)),
        reason,
    }
}

/// Whether its exclusion lasts at `now`. What is over, and what was launched again, excludes nothing.
fn is_excluded(row: &v1::Offering, now: Timestamp) -> bool {
    row.failure_count > 0
        && row.exclude_until_time.as_ref().is_some_and(|until| api_messages::to_millis(until) > now.as_millis())
}

fn audit_entry(row: AuditRow) -> v1::AuditEntry {
    let AuditEntry { at_ms, who, what, scope, detail } = row.entry;
    v1::AuditEntry {
        name: format!("auditEntries/{}", row.id),
        create_time: Some(api_messages::from_millis(at_ms)),
        operator: who,
        command: what,
        target: scope,
        detail,
    }
}

impl FleetApi {
    pub(super) async fn list_decisions_now(
        &self,
        request: v1::ListDecisionsRequest,
        access: &Access,
    ) -> Result<v1::ListDecisionsResponse, Status> {
        let resume_token = self.decision_positions(&request.parent, access).await?;
        if access.part {
            return Ok(v1::ListDecisionsResponse { resume_token, ..Default::default() });
        }
        let v1::ListDecisionsRequest { parent, page_size: size, page_token, filter: text, view } = request;
        let full = view == v1::DecisionView::Full as i32;
        let only = names::parse_parent(&parent)?;
        only.iter().try_for_each(|cluster| access.check(cluster))?;
        let scope = only.map(|cluster| Scope::cluster(&cluster));
        let selects = filter(&text, &schemas::DECISIONS)?;
        let size = page_size(size)? as usize;
        let arguments = ["decisions", &*parent, &*text];
        let mut before = read_number_token(&page_token, &arguments)?;
        let resume_token = if page_token.is_empty() { resume_token } else { String::new() };
        let mut decisions = Vec::new();
        let mut scanned = 0;
        loop {
            let limit = SCANNED.0.max(u32::try_from(size - decisions.len()).unwrap_or(PAGE.1));
            let read = DecisionFilter { scope: scope.clone(), limit, before };
            let rows = self.store.decisions(&read).await.map_err(store_failed)?;
            let is_last = rows.len() < limit as usize;
            scanned += rows.len() as u32;
            for row in rows {
                before = Some(row.decision.number);
                let row = decision(row, full);
                if access.shows(&row.name) && selects.matches(&row) {
                    decisions.push(row);
                }
                if decisions.len() == size {
                    break;
                }
            }
            let is_full = decisions.len() == size || scanned >= SCANNED.1;
            if is_full || is_last {
                let more = before.filter(|_| is_full && !(is_last && decisions.len() < size));
                let next_page_token = more.map(|number| number_token(number, &arguments)).unwrap_or_default();
                return Ok(v1::ListDecisionsResponse { decisions, next_page_token, resume_token });
            }
        }
    }

    pub(super) async fn get_decision_now(
        &self,
        request: v1::GetDecisionRequest,
        access: &Access,
    ) -> Result<v1::Decision, Status> {
        let name = &request.name;
        let (cluster, number) = names::parse_child(name, "decisions")?;
        access.check(&cluster)?;
        let number: u64 = number.parse().map_err(|_| names::not_a_number(name, &number))?;
        let stored = self.store.decision(number).await.map_err(store_failed)?;
        let found = stored.into_iter().find(|stored| stored.scope.cluster_name() == Some(&cluster));
        found.map(|stored| decision(stored, true)).ok_or_else(|| Status::not_found(format!("there is no {name:?}")))
    }

    pub(super) async fn list_offerings_now(
        &self,
        request: v1::ListOfferingsRequest,
        _: &Access,
    ) -> Result<v1::ListOfferingsResponse, Status> {
        let arguments = ListRequest {
            parent: "",
            filter: &request.filter,
            order_by: &request.order_by,
            page_size: request.page_size,
            page_token: &request.page_token,
        };
        let query = Query::new(&schemas::OFFERINGS, &arguments).map_err(invalid)?;
        let mut offerings = Vec::new();
        for scope in self.scopes.iter() {
            let (region, account) = region_and_account(scope);
            let rows = self.store.unavailable_offerings(region, account, OFFERINGS_WITHIN);
            let rows = rows.await.map_err(store_failed)?.into_iter().map(|row| offering(row, scope));
            offerings.extend(rows.filter(|row| is_excluded(row, clock::now())));
        }
        let rows = query.select(&offerings).into_iter().cloned().collect();
        let page = query.merge(vec![rows], |_, _| Ordering::Equal);
        Ok(v1::ListOfferingsResponse { offerings: page.rows, next_page_token: page.next_page_token })
    }

    pub(super) async fn get_hold_now(&self, request: v1::GetHoldRequest, access: &Access) -> Result<v1::Hold, Status> {
        holds::get(&*self.store, &request.name, access).await.map(|row| holds::hold(&row))
    }

    pub(super) async fn watch_hold_now(
        &self,
        request: v1::WatchHoldRequest,
        access: &Access,
    ) -> Result<Watch<v1::Hold>, Status> {
        holds::watch(Arc::clone(&self.store), request.name, access.clone()).await
    }

    pub(super) async fn list_holds_now(
        &self,
        request: v1::ListHoldsRequest,
        access: &Access,
    ) -> Result<v1::ListHoldsResponse, Status> {
        let arguments = ListRequest {
            parent: &request.parent,
            filter: &request.filter,
            order_by: &request.order_by,
            page_size: request.page_size,
            page_token: &request.page_token,
        };
        let query = Query::new(&schemas::HOLDS, &arguments).map_err(invalid)?;
        let cluster = names::parse_parent(&request.parent)?;
        cluster.iter().try_for_each(|cluster| access.check(cluster))?;
        let rows = self.store.holds(cluster.as_ref().map(AsRef::as_ref)).await.map_err(store_failed)?;
        let shown = rows.iter().filter(|row| access.clusters.allows(&row.cluster));
        let rows: Vec<v1::Hold> = shown.map(holds::hold).collect();
        let page = query.merge(vec![query.select(&rows).into_iter().cloned().collect()], |_, _| Ordering::Equal);
        Ok(v1::ListHoldsResponse { holds: page.rows, next_page_token: page.next_page_token })
    }

    pub(super) async fn list_audit_entries_now(
        &self,
        request: v1::ListAuditEntriesRequest,
        access: &Access,
    ) -> Result<v1::ListAuditEntriesResponse, Status> {
        access.check_fleet("the audit log")?;
        let size = page_size(request.page_size)?;
        let before = read_number_token(&request.page_token, &["audit"])?;
        let before = before.map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        let rows = self.store.read_audit(size, before).await.map_err(store_failed)?;
        let last = rows.last().filter(|_| rows.len() == size as usize).map(|row| row.id.unsigned_abs());
        let next_page_token = last.map(|number| number_token(number, &["audit"])).unwrap_or_default();
        let audit_entries = rows.into_iter().map(audit_entry).collect();
        Ok(v1::ListAuditEntriesResponse { audit_entries, next_page_token })
    }

    pub(super) async fn list_freezes_now(
        &self,
        request: v1::ListFreezesRequest,
        access: &Access,
    ) -> Result<v1::ListFreezesResponse, Status> {
        let size = page_size(request.page_size)? as usize;
        let after = read_number_token(&request.page_token, &["freezes"])?.unwrap_or(0);
        let mut freezes = self.store.freezes().await.map_err(store_failed)?;
        freezes.retain(|freeze| operations::shows(access, &freeze.order.scope));
        // Oldest first: their ids grow.
        let mut left = freezes.iter().filter(|freeze| freeze.id.unsigned_abs() > after).peekable();
        let page: Vec<_> = left.by_ref().take(size).collect();
        let last = page.last().filter(|_| left.peek().is_some()).map(|freeze| freeze.id.unsigned_abs());
        let next_page_token = last.map(|number| number_token(number, &["freezes"])).unwrap_or_default();
        let freezes = page.into_iter().map(operations::message).collect();
        Ok(v1::ListFreezesResponse { freezes, next_page_token })
    }
}

#[cfg(test)]
mod tests {
    use store::memory::MemoryStore;
    use store::offerings::{OfferingChange, OfferingKey};

    use super::*;
    use crate::views;

    /// An offering of the zone, refused twice, the last time a minute before its exclusion ends.
    fn refused(zone: &str, until_ms: i64) -> OfferingRow {
        let key = OfferingKey {
            account: None,
            instance_type: "m7g.large".to_owned(),
            zone: zone.to_owned(),
            capacity_type: "spot".to_owned(),
            size: 1,
        };
        let reason = "InsufficientInstanceCapacity".to_owned();
        OfferingRow { key, failures: 2, refused_ms: until_ms - 60_000, until_ms, reason, version: 0 }
    }

    fn region() -> Scope {
        Scope::Region { account: "123".to_owned(), region: "us-east-1".to_owned() }
    }

    #[tokio::test]
    async fn offerings_whose_exclusion_is_over_are_not_listed() {
        let (_publisher, views) = views::channel();
        let mut api = FleetApi::alone(views, (Arc::default(), Arc::default()), Arc::new(MemoryStore::new()));
        api.scopes = Arc::from([region()]);
        let now = clock::now().as_millis();
        let (lasts, is_over, launched) =
            (refused("use1-az1", now + 600_000), refused("use1-az2", now - 1_000), refused("use1-az3", now + 600_000));
        let launched_again = OfferingChange::Cleared(launched.key.clone());
        let refusals = [lasts, is_over, launched].map(OfferingChange::Refused);
        for changes in [&refusals[..], &[launched_again]] {
            api.store.change_offerings("us-east-1", changes).await.expect("a store in memory");
        }
        let listed = api.list_offerings_now(Default::default(), &Access::default()).await.expect("a list").offerings;
        let names: Vec<&str> = listed.iter().map(|offering| offering.name.as_str()).collect();
        assert_eq!(names, ["offerings/us-east-1.123.all.use1-az1.m7g.large.spot.1"]);
    }

    #[test]
    fn an_exclusion_is_over_at_its_end() {
        let row = offering(refused("use1-az1", 100_000), &region());
        assert!(is_excluded(&row, Timestamp::from_millis(99_999)));
        assert!(!is_excluded(&row, Timestamp::from_millis(100_000)));
    }
}
