//! What the selectors of EC2NodeClasses find in one account and region, and whether instances can be launched from it.
//!
//! | Condition | Calls | Answers are current for |
//! |---|---|---|
//! | `AMIsReady` | `ssm:GetParameter`, `ec2:DescribeImages` | 5 minutes; a pinned version of an alias 24 hours; nothing found 1 minute |
//! | `CapacityReservationsReady` | `ec2:DescribeCapacityReservations` | 1 minute |
//! | `SubnetsReady` | `ec2:DescribeSubnets` | 1 minute |
//! | `SecurityGroupsReady` | `ec2:DescribeSecurityGroups` | 5 minutes; nothing found 1 minute |
//! | `InstanceProfileReady` | `iam:GetInstanceProfile`; for a role also `iam:CreateInstanceProfile`, `iam:AddRoleToInstanceProfile`, `iam:TagInstanceProfile` | 15 minutes, one that the server makes 1 hour; not usable 1 minute |
//! | `ValidationSucceeded` | `eks:DescribeCluster`, `eks:DescribeAccessEntry`, both optional; with roles `sts:AssumeRole` | a cluster 24 hours, an unknown one 1 hour; an access entry 1 hour, a missing one 1 minute; a role that cannot be assumed 5 minutes |
//!
//! Answers are kept by request, not by EC2NodeClass: equal selectors of any number of clusters are looked up once. A
//! failed call keeps the last answer, and the condition stays met; it is unknown only when there has never been an
//! answer. Times and rules are those of Karpenter's AWS provider unless a comment says otherwise.
//!
//! Reading order: `filters` (terms as requests), then a module for each kind of resource, without I/O: `subnets`,
//! `security_groups`, `images`, `reservations`, `instance_profile`, `eks`, `validation`; then `cache` (answers
//! that are kept), `calls` (the calls), and the resolver here.

mod cache;
mod calls;
mod conditions;
mod eks;
mod filters;
mod images;
mod instance_profile;
mod reservations;
mod security_groups;
mod subnets;
#[cfg(test)]
mod testing;
mod validation;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use model::node_class::{ImageEntry, NodeClassQuery, ReservationStatus, Resolution, ResolvedNodeClass};
use model::{ClusterName, Millis, Text, Timestamp};

use self::cache::{Cache, DeniedActions};
pub use self::conditions::{
    AMIS_READY, CAPACITY_RESERVATIONS_READY, INSTANCE_PROFILE_READY, SECURITY_GROUPS_READY, SUBNETS_READY,
    VALIDATION_SUCCEEDED,
};
use self::conditions::{failed, missing};
use self::eks::{AccessEntry, EksCluster};
use self::filters::Filters;
use self::images::{FoundImage, ImageRequest};
use self::instance_profile::{ProfileAnswer, ProfileRequest};
use self::reservations::ReservationRequest;
use self::security_groups::FoundGroup;
use self::subnets::FoundSubnet;
use self::validation::Validation;
use crate::call_error::CallError;
use crate::launches::Launches;
use crate::sessions::Sessions;
use crate::slot::Served;

/// Times for which answers are current.
const MINUTE: Millis = Millis::from_mins(1);
const FIVE_MINUTES: Millis = Millis::from_mins(5);
const QUARTER: Millis = Millis::from_mins(15);
/// What is looked up for each cluster by itself: at this pace a thousand clusters take a few calls a minute.
const HOUR: Millis = Millis::from_hours(1);
/// Service CIDR and name of a cluster never change, its authentication mode once or never.
const DAY: Millis = Millis::from_hours(24);

/// Resolves the EC2NodeClasses of all clusters of one account and region.
pub struct NodeClassResolver {
    sessions: Arc<Sessions>,
    region: String,
    clock: fn() -> Timestamp,
    /// Launches take addresses of subnets between two answers.
    launches: Arc<Launches>,
    subnets: Cache<Filters, Arc<[FoundSubnet]>>,
    groups: Cache<Filters, Arc<[FoundGroup]>>,
    parameters: Cache<Text, Option<Text>>,
    images: Cache<ImageRequest, Arc<[FoundImage]>>,
    reservations: Cache<ReservationRequest, Arc<[ReservationStatus]>>,
    profiles: Cache<ProfileRequest, ProfileAnswer>,
    clusters: Cache<ClusterName, Option<EksCluster>>,
    access_entries: Cache<(ClusterName, Text), bool>,
}

impl fmt::Debug for NodeClassResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeClassResolver").field("region", &self.region).finish_non_exhaustive()
    }
}

/// What a selector found, its condition, and the age of its oldest answer; nothing while the condition is unknown.
type Found<T> = (Option<T>, Resolution, Millis);

/// Age of the oldest of the answers that something was found by.
#[derive(Debug, Default)]
struct OldestAnswer(Millis);

impl OldestAnswer {
    fn value<V>(&mut self, served: Served<V>) -> V {
        self.0 = self.0.max(served.age);
        served.value
    }
}

impl NodeClassResolver {
    pub(crate) fn new(
        sessions: Arc<Sessions>,
        region: &str,
        clock: fn() -> Timestamp,
        launches: Arc<Launches>,
    ) -> Self {
        let denied = DeniedActions::default();
        Self {
            sessions,
            region: region.to_owned(),
            clock,
            launches,
            subnets: Cache::new(clock, &denied),
            groups: Cache::new(clock, &denied),
            parameters: Cache::new(clock, &denied),
            images: Cache::new(clock, &denied),
            reservations: Cache::new(clock, &denied),
            profiles: Cache::new(clock, &denied),
            clusters: Cache::new(clock, &denied),
            access_entries: Cache::new(clock, &denied),
        }
    }

    /// The status of an EC2NodeClass, and the result for each of its conditions. Makes the instance profile of
    /// `spec.role` if there is none; changes nothing else.
    pub async fn resolve(&self, query: &NodeClassQuery) -> ResolvedNodeClass {
        // Ages are taken later, so that nothing is shown as newer than it is.
        let begun = (self.clock)();
        let (images, reservations, subnets, groups, profile, eks, session) = tokio::join!(
            self.resolve_images(query),
            self.resolve_reservations(query),
            self.resolve_subnets(query),
            self.resolve_groups(query),
            self.resolve_profile(query),
            self.eks_cluster(&query.cluster),
            self.sessions.check(&query.cluster),
        );
        let found_at = [
            (AMIS_READY, &images.1, images.2),
            (CAPACITY_RESERVATIONS_READY, &reservations.1, reservations.2),
            (SUBNETS_READY, &subnets.1, subnets.2),
            (SECURITY_GROUPS_READY, &groups.1, groups.2),
        ];
        let is_met = |(_, condition, _): &(&str, &Resolution, Millis)| **condition == Resolution::Met;
        let found_at = found_at.into_iter().filter(is_met).map(|(kind, _, age)| (kind, begun - age)).collect();
        let (profile, role_arn, profile_condition) = profile;
        let access = self.access_entry(&query.cluster, eks.as_ref().ok().and_then(Option::as_ref), role_arn).await;
        let mut conditions = BTreeMap::from([
            (AMIS_READY, images.1),
            (CAPACITY_RESERVATIONS_READY, reservations.1),
            (SUBNETS_READY, subnets.1),
            (SECURITY_GROUPS_READY, groups.1),
            (INSTANCE_PROFILE_READY, profile_condition),
        ]);
        let validation = Validation {
            query,
            conditions: &conditions,
            eks: eks.as_ref().map(Option::as_ref),
            access: &access,
            session: session.as_ref().err(),
            is_confined: self.sessions.confines(&query.cluster),
            subnets: subnets.0.as_deref().unwrap_or_default(),
            groups: groups.0.as_deref().unwrap_or_default(),
            reservations: reservations.0.as_deref().unwrap_or_default(),
        };
        let valid = validation.condition();
        conditions.insert(VALIDATION_SUCCEEDED, valid);
        let entries = |found: Vec<FoundSubnet>| found.into_iter().map(|found| found.entry).collect();
        let group_entries = |found: Vec<FoundGroup>| found.into_iter().map(|found| found.entry).collect();
        // What could not be looked up stays as it was observed.
        let mut status = (*query.status).clone();
        status.images = images.0.or(status.images);
        status.reservations = reservations.0.or(status.reservations);
        status.subnets = subnets.0.map(entries).or(status.subnets);
        status.security_groups = groups.0.map(group_entries).or(status.security_groups);
        status.instance_profile = profile.unwrap_or(status.instance_profile);
        let service_cidr = eks.as_ref().ok().and_then(|eks| eks.as_ref()?.service_cidr.clone());
        ResolvedNodeClass { status, conditions, found_at, service_cidr }
    }

    async fn resolve_subnets(&self, query: &NodeClassQuery) -> Found<Vec<FoundSubnet>> {
        let requests = subnets::requests(&query.spec.subnet_terms);
        let (mut answers, mut oldest) = (Vec::new(), OldestAnswer::default());
        for request in &requests {
            let call = self.counted_subnets(request);
            match self.subnets.get(calls::SUBNETS, request, |_| MINUTE, call).await {
                Ok(served) => answers.extend(oldest.value(served).iter().cloned()),
                Err(error) => return (None, failed(&self.named("spec.subnetSelectorTerms"), &error), Millis::ZERO),
            }
        }
        let found = subnets::union(answers);
        let condition = subnets::condition(&found, &requests, &self.region);
        (Some(found), condition, oldest.0)
    }

    /// The subnets of an answer, whose free addresses are counted anew with each call.
    async fn counted_subnets(&self, request: &Filters) -> Result<Arc<[FoundSubnet]>, CallError> {
        let found = calls::subnets(self.sessions.shared(), request).await?;
        for subnet in found.iter() {
            self.launches.observe_addresses(&subnet.entry.id, subnet.free_addresses());
        }
        Ok(found)
    }

    async fn resolve_groups(&self, query: &NodeClassQuery) -> Found<Vec<FoundGroup>> {
        let requests = security_groups::requests(&query.spec.security_group_terms);
        let ttl = |found: &Arc<[FoundGroup]>| if found.is_empty() { MINUTE } else { FIVE_MINUTES };
        let (mut answers, mut oldest) = (Vec::new(), OldestAnswer::default());
        for request in &requests {
            let call = calls::security_groups(self.sessions.shared(), request);
            match self.groups.get(calls::SECURITY_GROUPS, request, ttl, call).await {
                Ok(served) => answers.extend(oldest.value(served).iter().cloned()),
                Err(error) => {
                    return (None, failed(&self.named("spec.securityGroupSelectorTerms"), &error), Millis::ZERO);
                }
            }
        }
        let found = security_groups::union(answers);
        let condition = security_groups::condition(&found, &requests, &self.region);
        (Some(found), condition, oldest.0)
    }

    async fn resolve_reservations(&self, query: &NodeClassQuery) -> Found<Vec<ReservationStatus>> {
        let (mut answers, mut oldest) = (Vec::new(), OldestAnswer::default());
        for request in &reservations::requests(&query.spec.reservation_terms) {
            let call = calls::reservations(self.sessions.shared(), request);
            match self.reservations.get(calls::RESERVATIONS, request, |_| MINUTE, call).await {
                Ok(served) => answers.extend(oldest.value(served).iter().cloned()),
                Err(error) => {
                    return (None, failed(&self.named("spec.capacityReservationSelectorTerms"), &error), Millis::ZERO);
                }
            }
        }
        // Without reservations, launches use other capacity: nothing is missing.
        (Some(reservations::union(answers, (self.clock)())), Resolution::Met, oldest.0)
    }

    async fn resolve_images(&self, query: &NodeClassQuery) -> Found<Vec<ImageEntry>> {
        let terms = &query.spec.ami_terms;
        let variants = match images::alias_variants(terms, &query.facts, &query.cluster) {
            Ok(variants) => variants,
            Err(condition @ Resolution::Missing { .. }) => return (Some(Vec::new()), condition, Millis::ZERO),
            Err(condition) => return (None, condition, Millis::ZERO),
        };
        let own = images::normalise(terms);
        let mut oldest = OldestAnswer::default();
        let found = match self.find_images(&variants, &own, &mut oldest).await {
            Ok(found) => found,
            Err(ImagesError::Call(error)) => {
                return (None, failed(&self.named("spec.amiSelectorTerms"), &error), Millis::ZERO);
            }
            Err(ImagesError::NotAnImage(name)) => {
                let message = format!(
                    "the parameter {name} of spec.amiSelectorTerms in region {} has no image id as its value: set it to \
                     an id such as ami-0abc",
                    self.region
                );
                return (Some(Vec::new()), missing("AMINotFound", message), Millis::ZERO);
            }
        };
        let condition = images::condition(&found, &images::describe(&own, &variants), &self.region);
        (Some(found), condition, oldest.0)
    }

    /// A parameter that does not exist has no image. Any other failure must not: instance types would lose their image.
    async fn find_images(
        &self,
        variants: &[images::Variant],
        own: &images::ImageTerms,
        oldest: &mut OldestAnswer,
    ) -> Result<Vec<ImageEntry>, ImagesError> {
        let mut of_alias = Vec::new();
        for variant in variants {
            let id = self.parameter(&variant.parameter, oldest).await?;
            of_alias.extend(id.map(|id| (id, variant.requirements.clone())));
        }
        let mut ids: BTreeSet<Text> = own.ids.clone();
        for name in &own.parameters {
            let Some(id) = self.parameter(name, oldest).await? else { continue };
            if !id.starts_with("ami-") {
                return Err(ImagesError::NotAnImage(name.clone()));
            }
            ids.insert(id);
        }
        ids.extend(of_alias.iter().map(|(id, _)| id.clone()));
        let by_ids = (!ids.is_empty()).then(|| ImageRequest::of_ids(ids));
        let mut found: BTreeMap<Text, FoundImage> = BTreeMap::new();
        for request in own.requests.iter().chain(&by_ids) {
            let ttl = |images: &Arc<[FoundImage]>| if images.is_empty() { MINUTE } else { FIVE_MINUTES };
            let served =
                self.images.get(calls::IMAGES, request, ttl, calls::images(self.sessions.shared(), request)).await?;
            found.extend(oldest.value(served).iter().map(|image| (image.id().clone(), image.clone())));
        }
        Ok(images::entries(found.into_values(), &of_alias, (self.clock)()))
    }

    async fn parameter(&self, name: &Text, oldest: &mut OldestAnswer) -> Result<Option<Text>, CallError> {
        let ttl = |value: &Option<Text>| match value {
            None => MINUTE,
            Some(_) if name.starts_with("/aws/service/") && images::is_pinned(name) => DAY,
            Some(_) => FIVE_MINUTES,
        };
        let call = calls::parameter(self.sessions.shared(), name);
        Ok(oldest.value(self.parameters.get(calls::PARAMETER, name, ttl, call).await?))
    }

    /// The name for the status (outer `None`: unknown), the ARN of the role, and the condition.
    async fn resolve_profile(&self, query: &NodeClassQuery) -> (Option<Option<Text>>, Option<Text>, Resolution) {
        let request = ProfileRequest::of(query, &self.region);
        let ttl = |answer: &ProfileAnswer| match answer {
            ProfileAnswer::Usable(Some(_)) if matches!(request, ProfileRequest::Managed(_)) => HOUR,
            ProfileAnswer::Usable(Some(_)) => QUARTER,
            _ => MINUTE,
        };
        let call = self.profile(&query.cluster, &request);
        let name = Some(Some(request.name().clone()));
        match self.profiles.get(calls::GET_PROFILE, &request, ttl, call).await {
            Ok(served) => {
                let condition = instance_profile::condition(&request, &served.value);
                let given = matches!(request, ProfileRequest::Given(_));
                let usable = given || condition == Resolution::Met;
                let arn = if let ProfileAnswer::Usable(arn) = served.value { arn } else { None };
                (if usable { name } else { Some(None) }, arn, condition)
            }
            // The user's profile needs no right; whether it exists is then not checked. A managed profile that the
            // status names was made earlier.
            Err(_) if matches!(request, ProfileRequest::Given(_)) => (name, None, Resolution::Met),
            Err(_) if query.status.instance_profile.as_ref() == Some(request.name()) => (name, None, Resolution::Met),
            Err(error) => {
                let what = format!("the instance profile for spec.role in region {}", self.region);
                (None, None, failed(&what, &error))
            }
        }
    }

    /// A managed profile is made in the session of its cluster, which its tags and path name.
    async fn profile(&self, cluster: &ClusterName, request: &ProfileRequest) -> Result<ProfileAnswer, CallError> {
        let (shared, own) = (self.sessions.shared(), self.sessions.of(cluster)?);
        calls::profile(shared, &own, request).await
    }

    async fn eks_cluster(&self, cluster: &ClusterName) -> Result<Option<EksCluster>, CallError> {
        let ttl = |found: &Option<EksCluster>| if found.is_some() { DAY } else { HOUR };
        let call = calls::cluster(self.sessions.shared(), cluster);
        Ok(self.clusters.get(calls::CLUSTER, cluster, ttl, call).await?.value)
    }

    async fn access_entry(
        &self,
        cluster: &ClusterName,
        eks: Option<&EksCluster>,
        role_arn: Option<Text>,
    ) -> AccessEntry {
        let (Some(eks), Some(arn)) = (eks, role_arn) else { return AccessEntry::NotChecked };
        if !eks.requires_access_entries {
            return AccessEntry::NotChecked;
        }
        let request = (cluster.clone(), arn);
        let ttl = |present: &bool| if *present { HOUR } else { MINUTE };
        let call = calls::has_access_entry(self.sessions.shared(), cluster, &request.1);
        match self.access_entries.get(calls::ACCESS_ENTRY, &request, ttl, call).await {
            Ok(served) if served.value => AccessEntry::Present,
            Ok(_) => AccessEntry::Missing(request.1),
            Err(_) => AccessEntry::NotChecked,
        }
    }

    fn named(&self, field: &str) -> String {
        format!("{field} in region {}", self.region)
    }
}

/// Why images are not known.
enum ImagesError {
    Call(CallError),
    /// The parameter has another value than an image id.
    NotAnImage(Text),
}

impl From<CallError> for ImagesError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}
