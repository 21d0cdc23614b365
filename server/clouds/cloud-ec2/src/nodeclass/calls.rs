//! The calls, each sent once. What they ask for and what their answers mean is decided elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::types::{CapacityReservation, CapacityReservationState};
use aws_sdk_iam::types::{InstanceProfile, Tag};
use model::node_class::ReservationStatus;
use model::{ClusterName, Text};
use tracing::{info, warn};

use super::eks::{self, EksCluster};
use super::filters::Filters;
use super::images::{self, FoundImage, ImageRequest};
use super::instance_profile::{KnownProfile, ManagedProfile, ProfileAnswer, ProfileRequest};
use super::reservations::{self, ReservationRequest};
use super::security_groups::{self, FoundGroup};
use super::subnets::{self, FoundSubnet};
use crate::call_error::{CallError, CallErrorClass};
use crate::clients::Clients;
use crate::sessions::ClusterClients;

pub(super) const SUBNETS: &str = "ec2:DescribeSubnets";
pub(super) const SECURITY_GROUPS: &str = "ec2:DescribeSecurityGroups";
pub(super) const IMAGES: &str = "ec2:DescribeImages";
pub(super) const RESERVATIONS: &str = "ec2:DescribeCapacityReservations";
pub(super) const PARAMETER: &str = "ssm:GetParameter";
pub(super) const GET_PROFILE: &str = "iam:GetInstanceProfile";
const CREATE_PROFILE: &str = "iam:CreateInstanceProfile";
const ADD_ROLE: &str = "iam:AddRoleToInstanceProfile";
const TAG_PROFILE: &str = "iam:TagInstanceProfile";
pub(super) const CLUSTER: &str = "eks:DescribeCluster";
pub(super) const ACCESS_ENTRY: &str = "eks:DescribeAccessEntry";

/// Page sizes (Karpenter AWS: subnets, security groups, images, reservations).
const SMALL_PAGE: i32 = 500;
const LARGE_PAGE: i32 = 1_000;

fn code_of<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> &str {
    error.as_service_error().and_then(ProvideErrorMetadata::code).unwrap_or_default()
}

pub(super) async fn subnets(clients: &Clients, filters: &Filters) -> Result<Arc<[FoundSubnet]>, CallError> {
    let call = clients.ec2.describe_subnets().set_filters(Some(filters.to_ec2()));
    let found = call.max_results(SMALL_PAGE).into_paginator().items().send().try_collect().await;
    let found = found.map_err(|error| CallError::read(SUBNETS, &error))?;
    Ok(found.iter().filter_map(subnets::read).collect())
}

pub(super) async fn security_groups(clients: &Clients, filters: &Filters) -> Result<Arc<[FoundGroup]>, CallError> {
    let call = clients.ec2.describe_security_groups().set_filters(Some(filters.to_ec2()));
    let found = call.max_results(SMALL_PAGE).into_paginator().items().send().try_collect().await;
    let found = found.map_err(|error| CallError::read(SECURITY_GROUPS, &error))?;
    Ok(found.iter().filter_map(security_groups::read).collect())
}

/// Images that can be launched, deprecated ones included.
pub(super) async fn images(clients: &Clients, request: &ImageRequest) -> Result<Arc<[FoundImage]>, CallError> {
    let filters = request.filters.clone().with("state", "available");
    let owners = request.owners.iter().map(ToString::to_string).collect::<Vec<_>>();
    let call = clients.ec2.describe_images().set_filters(Some(filters.to_ec2())).include_deprecated(true);
    let call = call.set_owners((!owners.is_empty()).then_some(owners));
    let found = call.max_results(LARGE_PAGE).into_paginator().items().send().try_collect().await;
    let found = found.map_err(|error| CallError::read(IMAGES, &error))?;
    Ok(found.iter().filter_map(images::read).collect())
}

pub(super) async fn reservations(
    clients: &Clients,
    request: &ReservationRequest,
) -> Result<Arc<[ReservationStatus]>, CallError> {
    let found = match request {
        ReservationRequest::Id(id) => reservation(clients, id).await?,
        ReservationRequest::Filters(filters) => filtered_reservations(clients, filters).await?,
    };
    Ok(found.iter().filter_map(reservations::read).collect())
}

/// EC2 accepts no page size beside an id, and refuses one that does not exist.
async fn reservation(clients: &Clients, id: &str) -> Result<Vec<CapacityReservation>, CallError> {
    let sent = clients.ec2.describe_capacity_reservations().capacity_reservation_ids(id).send().await;
    match sent {
        Ok(answer) => {
            let mut found = answer.capacity_reservations.unwrap_or_default();
            found.retain(|found| found.state() == Some(&CapacityReservationState::Active));
            Ok(found)
        }
        Err(error) if code_of(&error) == "InvalidCapacityReservationId.NotFound" => Ok(Vec::new()),
        Err(error) => Err(CallError::read(RESERVATIONS, &error)),
    }
}

async fn filtered_reservations(clients: &Clients, filters: &Filters) -> Result<Vec<CapacityReservation>, CallError> {
    let filters = filters.clone().with("state", "active");
    let call = clients.ec2.describe_capacity_reservations().set_filters(Some(filters.to_ec2()));
    let found = call.max_results(LARGE_PAGE).into_paginator().items().send().try_collect().await;
    found.map_err(|error| CallError::read(RESERVATIONS, &error))
}

/// The value of a parameter; `None` when SSM says that there is no such parameter.
pub(super) async fn parameter(clients: &Clients, name: &str) -> Result<Option<Text>, CallError> {
    match clients.ssm.get_parameter().name(name).send().await {
        Ok(answer) => Ok(answer.parameter().and_then(|parameter| parameter.value()).map(Text::from)),
        Err(error) if code_of(&error) == "ParameterNotFound" => Ok(None),
        Err(error) => Err(CallError::read(PARAMETER, &error)),
    }
}

/// The cluster; `None` when EKS says that it has no such cluster.
pub(super) async fn cluster(clients: &Clients, name: &ClusterName) -> Result<Option<EksCluster>, CallError> {
    match clients.eks.describe_cluster().name(name.to_string()).send().await {
        Ok(answer) => Ok(answer.cluster().map(eks::read)),
        Err(error) if code_of(&error) == "ResourceNotFoundException" => Ok(None),
        Err(error) => Err(CallError::read(CLUSTER, &error)),
    }
}

/// Whether the cluster has an access entry for the role with this ARN.
pub(super) async fn has_access_entry(clients: &Clients, cluster: &ClusterName, arn: &str) -> Result<bool, CallError> {
    let call = clients.eks.describe_access_entry().cluster_name(cluster.to_string()).principal_arn(arn);
    match call.send().await {
        Ok(_) => Ok(true),
        Err(error) if code_of(&error) == "ResourceNotFoundException" => Ok(false),
        Err(error) => Err(CallError::read(ACCESS_ENTRY, &error)),
    }
}

/// Looks up the profile, and makes it with the clients `own` of its cluster if the server is to make it.
pub(super) async fn profile(
    clients: &Clients,
    own: &ClusterClients,
    request: &ProfileRequest,
) -> Result<ProfileAnswer, CallError> {
    match request {
        ProfileRequest::Given(name) => {
            let found = known_profile(clients, name).await?;
            let usable = |known: KnownProfile| ProfileAnswer::Usable(known.role.map(|(_, arn)| arn));
            Ok(found.map_or(ProfileAnswer::NotFound, usable))
        }
        ProfileRequest::Managed(profile) => managed_profile(clients, own, profile).await,
    }
}

/// Every step may have been done by another replica in the meantime, which is a success.
async fn managed_profile(
    clients: &Clients,
    own: &ClusterClients,
    profile: &ManagedProfile,
) -> Result<ProfileAnswer, CallError> {
    let known = match known_profile(clients, &profile.name).await? {
        Some(known) => known,
        None => create_profile(clients, own, profile).await?,
    };
    set_missing_tags(own, profile, &known).await;
    match &known.role {
        Some((name, arn)) if *name == profile.role => return Ok(ProfileAnswer::Usable(Some(arn.clone()))),
        Some((name, _)) => return Ok(ProfileAnswer::OtherRole(name.clone())),
        None => {}
    }
    if !add_role(own, profile).await? {
        return Ok(ProfileAnswer::RoleNotFound);
    }
    // IAM may not show the role yet; it is looked up again soon.
    match known_profile(clients, &profile.name).await?.and_then(|known| known.role) {
        Some((name, _)) if name != profile.role => Ok(ProfileAnswer::OtherRole(name)),
        role => Ok(ProfileAnswer::Usable(role.map(|(_, arn)| arn))),
    }
}

async fn known_profile(clients: &Clients, name: &str) -> Result<Option<KnownProfile>, CallError> {
    match clients.iam.get_instance_profile().instance_profile_name(name).send().await {
        Ok(answer) => Ok(answer.instance_profile().map(read_profile)),
        Err(error) if code_of(&error) == "NoSuchEntity" => Ok(None),
        Err(error) => Err(CallError::read(GET_PROFILE, &error)),
    }
}

fn read_profile(profile: &InstanceProfile) -> KnownProfile {
    let role = profile.roles().first().map(|role| (Text::from(role.role_name()), Text::from(role.arn())));
    let tags = profile.tags().iter().map(|tag| (Text::from(tag.key()), Text::from(tag.value()))).collect();
    KnownProfile { role, tags }
}

async fn create_profile(
    clients: &Clients,
    own: &ClusterClients,
    profile: &ManagedProfile,
) -> Result<KnownProfile, CallError> {
    let tags = iam_tags(&profile.tags)?;
    let call = own.iam().create_instance_profile().instance_profile_name(&*profile.name).path(&profile.path);
    match call.set_tags(Some(tags)).send().await {
        Ok(_) => {
            info!(profile = %profile.name, role = %profile.role, "instance profile created");
            Ok(KnownProfile { role: None, tags: profile.tags.clone() })
        }
        // Another replica made it, and gave it its tags.
        Err(error) if code_of(&error) == "EntityAlreadyExists" => {
            let known = known_profile(clients, &profile.name).await?;
            Ok(known.unwrap_or_else(|| KnownProfile { role: None, tags: profile.tags.clone() }))
        }
        Err(error) => Err(CallError::read(CREATE_PROFILE, &error).by(own.holder.as_ref())),
    }
}

fn iam_tags(tags: &BTreeMap<Text, Text>) -> Result<Vec<Tag>, CallError> {
    let tag = |(key, value): (&Text, &Text)| Tag::builder().key(&**key).value(&**value).build();
    tags.iter().map(tag).collect::<Result<_, _>>().map_err(|error| CallError::invalid_request(TAG_PROFILE, &error))
}

/// Tags change no launch, so a failure is logged only.
async fn set_missing_tags(own: &ClusterClients, profile: &ManagedProfile, known: &KnownProfile) {
    let lacks = profile.missing_tags(known);
    if lacks.is_empty() {
        return;
    }
    let Ok(tags) = iam_tags(&lacks) else { return };
    let call = own.iam().tag_instance_profile().instance_profile_name(&*profile.name).set_tags(Some(tags));
    if let Err(error) = call.send().await {
        let error = CallError::read(TAG_PROFILE, &error).by(own.holder.as_ref());
        warn!(profile = %profile.name, code = error.code(), %error, "instance profile not tagged");
    }
}

async fn add_role(own: &ClusterClients, profile: &ManagedProfile) -> Result<bool, CallError> {
    let call = own.iam().add_role_to_instance_profile().instance_profile_name(&*profile.name);
    match call.role_name(&*profile.role).send().await {
        // A profile has one role: another replica added it.
        Ok(_) => Ok(true),
        Err(error) if code_of(&error) == "LimitExceeded" => Ok(true),
        Err(error) if code_of(&error) == "NoSuchEntity" && names_role(&error) => Ok(false),
        // A profile made a moment ago may not exist everywhere yet.
        Err(error) if code_of(&error) == "NoSuchEntity" => {
            let message = "IAM does not show the new instance profile yet";
            Err(CallError::new(ADD_ROLE, CallErrorClass::Unclear, "NoSuchEntity", message))
        }
        Err(error) => Err(CallError::read(ADD_ROLE, &error).by(own.holder.as_ref())),
    }
}

/// IAM has one code for a missing profile and a missing role.
fn names_role<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> bool {
    let message = error.as_service_error().and_then(ProvideErrorMetadata::message).unwrap_or_default();
    !message.to_ascii_lowercase().contains("instance profile")
}
