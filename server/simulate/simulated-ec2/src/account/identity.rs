//! STS: AssumeRole, and the sessions that it makes.

use std::collections::BTreeMap;

use model::{Millis, Timestamp};

use super::authorization::Session;
use super::context::{Context, iso};
use super::instance_profiles::InstanceProfiles;
use crate::api_error::ApiError;
use crate::service::Service;
use crate::settings::{Role, Tags};
use crate::value::Fields;

/// Lifetime of credentials without `DurationSeconds`.
const LIFETIME_S: i64 = 3_600;
/// Shortest and longest lifetime (API reference: AssumeRole).
const LIFETIMES_S: std::ops::RangeInclusive<i64> = 900..=43_200;
/// Shortest and longest name of a session (API reference: AssumeRole).
const NAME_LENGTHS: std::ops::RangeInclusive<usize> = 2..=64;
/// Longest key and value of a session tag (API reference: AssumeRole).
const MAX_TAG: (usize, usize) = (128, 256);

/// Prefix of the access keys of sessions.
const SESSION_KEY: &str = "ASIA";

/// Sessions by access key.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_key: BTreeMap<String, Session>,
    made: u64,
}

impl Sessions {
    /// The session with this access key, also after its end.
    pub(crate) fn find(&self, key: &str) -> Option<&Session> {
        self.by_key.get(key)
    }

    pub(crate) fn revoke(&mut self) {
        self.by_key.clear();
    }

    /// The session of a caller; `None` for long-term credentials, all of which are valid here.
    ///
    /// # Errors
    /// The service's error for a session that has ended, or that there never was.
    pub(crate) fn authenticate(
        &self,
        key: &str,
        service: Service,
        now: Timestamp,
    ) -> Result<Option<&Session>, ApiError> {
        match self.by_key.get(key) {
            None if key.starts_with(SESSION_KEY) => {
                let message = "AWS was not able to validate the provided access credentials";
                Err(ApiError::new(service.unknown_key_code(), message))
            }
            Some(session) if session.expires <= now => {
                Err(ApiError::new(service.expired_code(), "The security token included in the request is expired"))
            }
            found => Ok(found),
        }
    }

    /// AssumeRole.
    ///
    /// # Errors
    /// An invalid name, tag or lifetime, and `AccessDenied` where the role does not trust the caller.
    pub(crate) fn assume(
        &mut self,
        account: &str,
        profiles: &InstanceProfiles,
        call: &Context<'_>,
    ) -> Result<Fields, ApiError> {
        let (arn, name) = (call.required("RoleArn")?, call.required("RoleSessionName")?);
        let tags = call.parameters.tags("Tags.member");
        check_request(name, &tags)?;
        let role = arn.rsplit('/').next().unwrap_or_default();
        let role = profiles.role(role).filter(|_| arn.starts_with(&format!("arn:aws:iam::{account}:role/")));
        let role = role.filter(|role| trusts(role, call, &tags)).ok_or_else(|| denied(arn))?;
        let seconds = call.parameters.number("DurationSeconds")?.unwrap_or(LIFETIME_S);
        if !LIFETIMES_S.contains(&seconds) {
            return Err(ApiError::new("ValidationError", format!("{seconds} seconds are no allowed lifetime")));
        }
        self.made += 1;
        let key = format!("{SESSION_KEY}{:016}", self.made);
        let session = Session {
            role: role.name.clone(),
            arn: format!("arn:aws:sts::{account}:assumed-role/{}/{name}", role.name),
            tags,
            expires: call.now + Millis::from_secs(seconds),
        };
        let credentials = Fields::new()
            .with("AccessKeyId", &key)
            .with("SecretAccessKey", format!("secret-of-{key}"))
            .with("SessionToken", format!("token-of-{key}"))
            .with("Expiration", iso(session.expires));
        let user = Fields::new().with("AssumedRoleId", format!("AROA{}:{name}", role.name)).with("Arn", &session.arn);
        self.by_key.insert(key, session);
        Ok(Fields::new().with("Credentials", credentials).with("AssumedRoleUser", user))
    }
}

/// Whether the trust policy of the role allows the call.
fn trusts(role: &Role, call: &Context<'_>, tags: &Tags) -> bool {
    let knows_id = role.external_id.is_none() || role.external_id.as_deref() == call.parameters.get("ExternalId");
    knows_id && (tags.is_empty() || role.tag_session)
}

fn check_request(name: &str, tags: &Tags) -> Result<(), ApiError> {
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_=,.@+-".contains(&byte);
    if !NAME_LENGTHS.contains(&name.len()) || !name.bytes().all(is_in_name) {
        return Err(ApiError::new("ValidationError", format!("The session name '{name}' is invalid")));
    }
    let is_in_tag = |c: char| c.is_alphanumeric() || c == ' ' || "_.:/=+-@".contains(c);
    let is_bad = |(key, value): &(&String, &String)| {
        key.is_empty()
            || key.chars().count() > MAX_TAG.0
            || value.chars().count() > MAX_TAG.1
            || !key.chars().chain(value.chars()).all(is_in_tag)
    };
    match tags.iter().find(is_bad) {
        Some((key, _)) => Err(ApiError::new("ValidationError", format!("The session tag '{key}' is invalid"))),
        None => Ok(()),
    }
}

fn denied(arn: &str) -> ApiError {
    ApiError::new("AccessDenied", format!("User is not authorized to perform: sts:AssumeRole on resource: {arn}"))
}
