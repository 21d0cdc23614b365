//! A store without what the suite must detect: it takes writes under expired epochs, grants a lease whatever epoch an
//! agent reports, and has one lane for all calls of the cloud's API.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use store::StoreResult;
use store::api_budget::{TokenGrant, TokenRequest, WaitingCalls};
use store::lease::{Lease, LeaseOutcome, MAX_EPOCH_JUMP};
use store::memory::{Interceptor, MemoryStore, SeenEpoch};

/// A store in memory without fencing.
pub(super) fn unfenced_store() -> MemoryStore {
    MemoryStore::new().intercepted(Arc::<Unfenced>::default())
}

#[derive(Default)]
struct Unfenced {
    /// The last granted lease of each scope, by the scope's key.
    granted: Mutex<BTreeMap<String, Lease>>,
    /// What the last request for tokens had for each lane.
    asked: Mutex<[WaitingCalls; 4]>,
}

impl Interceptor for Unfenced {
    fn change_request(&self, request: &mut dyn Any) {
        if let Some(lease) = request.downcast_mut::<Lease>() {
            // The present lease in its place.
            if let Some(present) = self.granted.lock().unwrap().get(&lease.scope.key()) {
                *lease = present.clone();
            }
        } else if let Some(SeenEpoch(seen)) = request.downcast_mut() {
            *seen = (*seen).min(MAX_EPOCH_JUMP);
        } else if let Some(TokenRequest { waiting, .. }) = request.downcast_mut() {
            *self.asked.lock().unwrap() = *waiting;
            let count = waiting.iter().map(|calls| calls.count).sum();
            let age = waiting.iter().map(|calls| calls.age).max().unwrap_or_default();
            *waiting = [WaitingCalls::default(); 4];
            waiting[0] = WaitingCalls { count, age };
        }
    }

    fn change_answer(&self, answer: &mut dyn Any) {
        if let Some(Ok(LeaseOutcome::Granted { lease, .. })) = answer.downcast_mut::<StoreResult<LeaseOutcome>>() {
            self.granted.lock().unwrap().insert(lease.scope.key(), lease.clone());
        } else if let Some(Ok(TokenGrant { tokens, .. })) = answer.downcast_mut::<StoreResult<TokenGrant>>() {
            let mut left = tokens.iter().sum::<u32>();
            *tokens = self.asked.lock().unwrap().map(|calls| {
                let given = calls.count.min(left);
                left -= given;
                given
            });
        }
    }
}
