//! Instance profiles and roles: CreateInstanceProfile, GetInstanceProfile, AddRoleToInstanceProfile, TagInstanceProfile.

use std::collections::BTreeMap;

use model::Timestamp;

use super::context::{Context, iso};
use crate::api_error::ApiError;
use crate::settings::{AccountSettings, Role, Tags};
use crate::value::{Fields, Node};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceProfile {
    /// Path, such as `/`.
    pub path: String,
    pub tags: Tags,
    pub role: Option<String>,
    /// When it was made.
    pub created: Timestamp,
}

/// Profiles by name, and roles.
#[derive(Debug)]
pub(crate) struct InstanceProfiles {
    account: String,
    roles: Vec<Role>,
    profiles: BTreeMap<String, InstanceProfile>,
}

impl InstanceProfiles {
    pub(crate) fn new(settings: &AccountSettings) -> Self {
        let created = Timestamp::from_millis(0);
        let profile = |(name, role): (&String, &String)| {
            let profile =
                InstanceProfile { path: "/".to_owned(), tags: Tags::new(), role: Some(role.clone()), created };
            (name.clone(), profile)
        };
        Self {
            account: settings.account.clone(),
            roles: settings.roles.clone(),
            profiles: settings.instance_profiles.iter().map(profile).collect(),
        }
    }

    pub(crate) fn set_roles(&mut self, roles: &[Role]) {
        self.roles = roles.to_vec();
    }

    /// All profiles by name.
    pub(crate) fn all(&self) -> &BTreeMap<String, InstanceProfile> {
        &self.profiles
    }

    pub(crate) fn find(&self, name: &str) -> Option<&InstanceProfile> {
        self.profiles.get(name)
    }

    pub(crate) fn role(&self, name: &str) -> Option<&Role> {
        self.roles.iter().find(|role| role.name == name)
    }

    pub(crate) fn create(&mut self, call: &Context<'_>) -> Result<Fields, ApiError> {
        let name = call.required("InstanceProfileName")?.to_owned();
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte);
        if !(1..=128).contains(&name.len()) || !name.bytes().all(is_allowed) {
            return Err(ApiError::new("ValidationError", format!("The instance profile name '{name}' is invalid")));
        }
        if self.profiles.contains_key(&name) {
            let message = format!("Instance Profile {name} already exists.");
            return Err(ApiError::new("EntityAlreadyExists", message));
        }
        let profile = InstanceProfile {
            path: call.parameters.get("Path").unwrap_or("/").to_owned(),
            tags: call.parameters.tags("Tags.member"),
            role: None,
            created: call.now,
        };
        let shown = self.shown(&name, &profile);
        self.profiles.insert(name, profile);
        Ok(Fields::new().with("InstanceProfile", shown))
    }

    pub(crate) fn get(&self, call: &Context<'_>) -> Result<Fields, ApiError> {
        let name = call.required("InstanceProfileName")?;
        let profile = self.profiles.get(name).ok_or_else(|| unknown_profile(name))?;
        Ok(Fields::new().with("InstanceProfile", self.shown(name, profile)))
    }

    pub(crate) fn add_role(&mut self, call: &Context<'_>) -> Result<Fields, ApiError> {
        let (name, role) = (call.required("InstanceProfileName")?, call.required("RoleName")?);
        if self.role(role).is_none() {
            return Err(unknown_role(role));
        }
        let profile = self.profiles.get_mut(name).ok_or_else(|| unknown_profile(name))?;
        if profile.role.is_some() {
            let message = "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1";
            return Err(ApiError::new("LimitExceeded", message));
        }
        profile.role = Some(role.to_owned());
        Ok(Fields::new())
    }

    pub(crate) fn tag(&mut self, call: &Context<'_>) -> Result<Fields, ApiError> {
        let name = call.required("InstanceProfileName")?;
        let profile = self.profiles.get_mut(name).ok_or_else(|| unknown_profile(name))?;
        profile.tags.extend(call.parameters.tags("Tags.member"));
        Ok(Fields::new())
    }

    fn shown(&self, name: &str, profile: &InstanceProfile) -> Fields {
        let tag = |(key, value): (&String, &String)| Node::from(Fields::new().with("Key", key).with("Value", value));
        let role = |name: &String| {
            Fields::new()
                .with("Path", "/")
                .with("RoleName", name)
                .with("RoleId", format!("AROA{name}"))
                .with("Arn", format!("arn:aws:iam::{}:role/{name}", self.account))
                .with("CreateDate", iso(Timestamp::from_millis(0)))
        };
        Fields::new()
            .with("Path", &profile.path)
            .with("InstanceProfileName", name)
            .with("InstanceProfileId", format!("AIPA{name}"))
            .with("Arn", profile_arn(&self.account, &profile.path, name))
            .with("CreateDate", iso(profile.created))
            .list("Roles", profile.role.iter().map(role))
            .list("Tags", profile.tags.iter().map(tag))
    }
}

pub(crate) fn profile_arn(account: &str, path: &str, name: &str) -> String {
    format!("arn:aws:iam::{account}:instance-profile{path}{name}")
}

fn unknown_profile(name: &str) -> ApiError {
    ApiError::new("NoSuchEntity", format!("Instance Profile {name} cannot be found."))
}

fn unknown_role(name: &str) -> ApiError {
    ApiError::new("NoSuchEntity", format!("The role with name {name} cannot be found."))
}
