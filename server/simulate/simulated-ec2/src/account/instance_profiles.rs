//! Instance profiles and roles: the IAM actions.

use std::collections::BTreeMap;

use model::Timestamp;

use super::context::{Context, iso};
use crate::api_error::ApiError;
use crate::query::parameters::Parameters;
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

    /// Answers an action of IAM; `None` for one that is not simulated.
    pub(crate) fn answer(&mut self, call: &Context<'_>) -> Option<Result<Fields, ApiError>> {
        Some(match call.action {
            "CreateInstanceProfile" => self.create(call),
            "GetInstanceProfile" => self.get(call.parameters),
            "ListInstanceProfiles" => self.list(call),
            "DeleteInstanceProfile" => self.delete(call.parameters),
            "AddRoleToInstanceProfile" => self.add_role(call.parameters),
            "RemoveRoleFromInstanceProfile" => self.remove_role(call.parameters),
            "TagInstanceProfile" => self.tag(call.parameters),
            "GetRole" => self.get_role(call.parameters),
            _ => return None,
        })
    }

    fn create(&mut self, call: &Context<'_>) -> Result<Fields, ApiError> {
        let name = call.parameters.required("InstanceProfileName")?.to_owned();
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

    fn get(&self, parameters: &Parameters) -> Result<Fields, ApiError> {
        let name = parameters.required("InstanceProfileName")?;
        let profile = self.profiles.get(name).ok_or_else(|| unknown_profile(name))?;
        Ok(Fields::new().with("InstanceProfile", self.shown(name, profile)))
    }

    fn list(&self, call: &Context<'_>) -> Result<Fields, ApiError> {
        let prefix = call.parameters.get("PathPrefix").unwrap_or("/");
        let size = call.parameters.number("MaxItems")?.unwrap_or(100);
        let limit = call.faults.page_size(call.action);
        let page = crate::query::paging::PageRequest::new(Some(size), call.parameters.get("Marker"), limit)?;
        let found = self.profiles.iter().filter(|(_, profile)| profile.path.starts_with(prefix));
        let (page, marker) = page.take(found, |(name, _)| (*name).clone());
        Ok(Fields::new()
            .list("InstanceProfiles", page.into_iter().map(|(name, profile)| self.shown(name, profile)))
            .with("IsTruncated", marker.is_some())
            .maybe("Marker", marker))
    }

    fn delete(&mut self, parameters: &Parameters) -> Result<Fields, ApiError> {
        let name = parameters.required("InstanceProfileName")?;
        let profile = self.profiles.get(name).ok_or_else(|| unknown_profile(name))?;
        if profile.role.is_some() {
            let message = "Cannot delete entity, must remove roles from instance profile first.";
            return Err(ApiError::new("DeleteConflict", message));
        }
        self.profiles.remove(name);
        Ok(Fields::new())
    }

    fn add_role(&mut self, parameters: &Parameters) -> Result<Fields, ApiError> {
        let (name, role) = (parameters.required("InstanceProfileName")?, parameters.required("RoleName")?);
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

    fn remove_role(&mut self, parameters: &Parameters) -> Result<Fields, ApiError> {
        let (name, role) = (parameters.required("InstanceProfileName")?, parameters.required("RoleName")?);
        let profile = self.profiles.get_mut(name).ok_or_else(|| unknown_profile(name))?;
        if profile.role.as_deref() != Some(role) {
            return Err(unknown_role(role));
        }
        profile.role = None;
        Ok(Fields::new())
    }

    fn tag(&mut self, parameters: &Parameters) -> Result<Fields, ApiError> {
        let name = parameters.required("InstanceProfileName")?;
        let profile = self.profiles.get_mut(name).ok_or_else(|| unknown_profile(name))?;
        profile.tags.extend(parameters.tags("Tags.member"));
        Ok(Fields::new())
    }

    fn get_role(&self, parameters: &Parameters) -> Result<Fields, ApiError> {
        let name = parameters.required("RoleName")?;
        let role = self.role(name).ok_or_else(|| unknown_role(name))?;
        Ok(Fields::new().with("Role", self.shown_role(&role.name)))
    }

    fn shown(&self, name: &str, profile: &InstanceProfile) -> Fields {
        let tag = |(key, value): (&String, &String)| Node::from(Fields::new().with("Key", key).with("Value", value));
        Fields::new()
            .with("Path", &profile.path)
            .with("InstanceProfileName", name)
            .with("InstanceProfileId", format!("AIPA{name}"))
            .with("Arn", profile_arn(&self.account, &profile.path, name))
            .with("CreateDate", iso(profile.created))
            .list("Roles", profile.role.iter().map(|role| self.shown_role(role)))
            .list("Tags", profile.tags.iter().map(tag))
    }

    fn shown_role(&self, name: &str) -> Fields {
        Fields::new()
            .with("Path", "/")
            .with("RoleName", name)
            .with("RoleId", format!("AROA{name}"))
            .with("Arn", format!("arn:aws:iam::{}:role/{name}", self.account))
            .with("CreateDate", iso(Timestamp::from_millis(0)))
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
