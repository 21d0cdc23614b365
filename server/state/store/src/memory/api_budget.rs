//! Rate limits of the cloud's API.

use std::collections::BTreeMap;

use ::api_budget::{Bucket, Limit, Waiting};
use model::Timestamp;

use super::super::api_budget::{ThrottledBucket, TokenGrant, TokenRequest};
use super::super::lease::Scope;
use super::tables::{ApiBucketTable, Tables, milliseconds};

impl Tables {
    pub(super) fn take_call_tokens(&mut self, scope: &Scope, request: &TokenRequest, now: i64) -> TokenGrant {
        let at = Timestamp::from_millis(now);
        let table = self.api_bucket(scope, &request.bucket, request.limit, at);
        table.waiting.remove(&request.process);
        table.waiting.retain(|_, (_, expires)| *expires > now);
        let others: Vec<Waiting> = table.waiting.values().map(|(waiting, _)| *waiting).collect();
        let (grant, left) = request.take_from(&mut table.bucket, &others, at);
        if !left.is_empty() {
            let expires = now.saturating_add(milliseconds(request.expires_in));
            table.waiting.insert(request.process.clone(), (left, expires));
        }
        grant
    }

    pub(super) fn record_throttle(&mut self, scope: &Scope, bucket: &str, limit: Limit, now: i64) -> ThrottledBucket {
        let at = Timestamp::from_millis(now);
        let table = self.api_bucket(scope, bucket, limit, at);
        let is_halved = table.bucket.record_throttle(limit, at);
        ThrottledBucket { rate: table.bucket.row().rate, is_halved }
    }

    fn api_bucket(&mut self, scope: &Scope, bucket: &str, limit: Limit, now: Timestamp) -> &mut ApiBucketTable {
        let new = || ApiBucketTable { bucket: Bucket::new(limit, now), waiting: BTreeMap::new() };
        self.api_buckets.entry((scope.clone(), bucket.to_owned())).or_insert_with(new)
    }
}
