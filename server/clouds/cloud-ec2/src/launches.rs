//! Launches under way: what was resolved for each order, which templates exist, and which addresses
//! are spoken for.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cloud::provider::{CloudError, LaunchRequest};
use model::{Millis, Text, Timestamp};

use crate::failure::CREATE_FLEET;
use crate::launch_template::{TemplateRegistry, groups};
use crate::request::client_token;
use crate::subnet_addresses::SubnetAddresses;
use crate::terms::{Resolved, Terms};

/// An order that was resolved and not launched for this long is forgotten. A NodeClaim is launched
/// within minutes, or given up (Karpenter: launch timeout).
const KEPT: Millis = Millis::from_hours(1);

/// Time between two collections of launch templates.
const COLLECTION_INTERVAL: Millis = Millis::from_mins(10);

/// Time between two listings of all launch templates.
const LISTING_INTERVAL: Millis = Millis::from_hours(1);

/// A cluster whose EC2NodeClasses are resolved every minute is served for this long after the last time.
const SERVED_FOR: Millis = Millis::from_mins(5);

/// State of the launches of one account and region in this process.
#[derive(Debug, Default)]
pub(crate) struct Launches(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Resolved orders by client token, with the time. The order is sent as it was recorded, whatever
    /// has changed meanwhile.
    resolved: BTreeMap<String, (Timestamp, Resolved)>,
    addresses: SubnetAddresses,
    templates: TemplateRegistry,
    /// UIDs of the clusters whose EC2NodeClasses were resolved here, with the time: this process owns them.
    served: BTreeMap<Text, Timestamp>,
    next_collection: Timestamp,
    next_listing: Timestamp,
}

impl Launches {
    /// Every method leaves the state valid, so a poisoned lock holds valid data.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `request` resolves to; the same until it is finished.
    ///
    /// # Errors
    /// [`CloudError::Refused`] when the order has neither recorded terms nor what they are made from,
    /// or its terms are unreadable.
    pub(crate) fn resolve(
        &self,
        request: &LaunchRequest,
        region: &str,
        now: Timestamp,
    ) -> Result<Resolved, CloudError> {
        let token = client_token(request);
        let mut state = self.state();
        if let Some((_, known)) = state.resolved.get(&token) {
            return Ok(known.clone());
        }
        if !request.terms.is_empty() {
            return recorded(request, region);
        }
        let Some(input) = &request.template else { return Err(without_input(request)) };
        let found = Resolved::of(request, input, region, &state.addresses);
        state.resolved.retain(|_, (since, _)| now - *since < KEPT);
        for subnet in found.terms.subnets.values() {
            state.addresses.reserve(subnet, found.addresses);
        }
        state.resolved.insert(token, (now, found.clone()));
        Ok(found)
    }

    /// The launch has ended, with an instance in `zone` or without. Subnets of other zones get their
    /// addresses back.
    pub(crate) fn finish(&self, request: &LaunchRequest, zone: Option<&str>) {
        let mut state = self.state();
        let Some((_, ended)) = state.resolved.remove(&client_token(request)) else { return };
        for (_, subnet) in ended.terms.subnets.iter().filter(|(of, _)| Some(of.as_str()) != zone) {
            state.addresses.release(subnet, ended.addresses);
        }
    }

    /// EC2's count of a subnet's free addresses.
    pub(crate) fn observe_addresses(&self, subnet: &str, free: i64) {
        self.state().addresses.observe(subnet, free);
    }

    /// Whether the template exists, as far as this process knows.
    pub(crate) fn use_template(&self, name: &str, now: Timestamp) -> bool {
        self.state().templates.use_known(name, now)
    }

    pub(crate) fn add_template(&self, name: &str, now: Timestamp) {
        self.state().templates.add(name, now);
    }

    /// The template does not exist, or is about to be deleted.
    pub(crate) fn forget_template(&self, name: &str) {
        self.state().templates.forget(name);
    }

    /// One of the templates does not exist; all are created again.
    pub(crate) fn forget_templates(&self, terms: &Terms) {
        let mut state = self.state();
        terms.templates.iter().for_each(|template| state.templates.forget(&template.name));
    }

    /// Whether this process knows the template.
    pub(crate) fn is_template_known(&self, name: &str) -> bool {
        self.state().templates.is_known(name)
    }

    /// This process owns the cluster with this UID.
    pub(crate) fn serve_cluster(&self, uid: &Text, now: Timestamp) {
        self.state().served.insert(uid.clone(), now);
    }

    /// Whether this process owned the cluster a few minutes ago.
    pub(crate) fn serves_cluster(&self, uid: &str, now: Timestamp) -> bool {
        let mut state = self.state();
        state.served.retain(|_, at| now.duration_since(*at) < SERVED_FOR);
        state.served.contains_key(uid)
    }

    /// Whether unused templates are to be deleted now; if so, schedules the next time.
    pub(crate) fn is_collection_due(&self, now: Timestamp) -> bool {
        let mut state = self.state();
        let is_due = now >= state.next_collection;
        if is_due {
            state.next_collection = now + COLLECTION_INTERVAL;
        }
        is_due
    }

    /// Whether all templates are to be listed now; if so, schedules the next time. The first time is an hour after the
    /// start: until then this process has used few of its templates.
    pub(crate) fn is_listing_of_templates_due(&self, now: Timestamp) -> bool {
        let mut state = self.state();
        let is_first = state.next_listing == Timestamp::default();
        let is_due = !is_first && now >= state.next_listing;
        if is_first || is_due {
            state.next_listing = now + LISTING_INTERVAL;
        }
        is_due
    }

    /// Templates that no launch has used lately.
    pub(crate) fn idle_templates(&self, now: Timestamp) -> Vec<String> {
        self.state().templates.idle(now)
    }
}

/// A recorded order. The contents of its templates are known if they would be the same today.
fn recorded(request: &LaunchRequest, region: &str) -> Result<Resolved, CloudError> {
    let terms = Terms::parse(request)?;
    let today = request.template.as_deref().and_then(|input| groups(request, input, region).ok());
    let named = today.into_iter().flatten().map(|group| (group.content.name(), group.content));
    let contents = named.filter(|(name, _)| terms.templates.iter().any(|template| template.name == *name)).collect();
    Ok(Resolved { terms, contents, addresses: 0 })
}

fn without_input(request: &LaunchRequest) -> CloudError {
    CloudError::Refused {
        operation: Text::from(CREATE_FLEET),
        code: Text::from("NodeClassNotResolved"),
        message: format!(
            "EC2NodeClass {} is not resolved yet, so nothing is known to launch {} from; see its conditions",
            request.node_class, request.claim
        ),
    }
}
