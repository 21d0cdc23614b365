//! STS: AssumeRole, AssumeRoleWithWebIdentity and GetCallerIdentity.

use std::collections::BTreeMap;

use model::Millis;

use super::context::{Context, iso};
use super::instance_profiles::InstanceProfiles;
use crate::api_error::ApiError;
use crate::value::Fields;

/// Lifetime of credentials without `DurationSeconds`.
const LIFETIME_S: i64 = 3_600;

/// Sessions by access key.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// ARN of the assumed role.
    arns: BTreeMap<String, String>,
}

impl Sessions {
    /// Answers an action of STS; `None` for one that is not simulated.
    pub(crate) fn answer(
        &mut self,
        account: &str,
        profiles: &InstanceProfiles,
        caller: &str,
        call: &Context<'_>,
    ) -> Option<Result<Fields, ApiError>> {
        Some(match call.action {
            "AssumeRole" | "AssumeRoleWithWebIdentity" => self.assume(account, profiles, call),
            "GetCallerIdentity" => Ok(self.identity(account, caller)),
            _ => return None,
        })
    }

    fn assume(&mut self, account: &str, profiles: &InstanceProfiles, call: &Context<'_>) -> Result<Fields, ApiError> {
        let (arn, session) = (call.parameters.required("RoleArn")?, call.parameters.required("RoleSessionName")?);
        let name = arn.rsplit('/').next().unwrap_or_default();
        let denied = || {
            ApiError::new(
                "AccessDenied",
                format!("User is not authorized to perform: sts:{} on resource: {arn}", call.action),
            )
        };
        let role = profiles.role(name).filter(|_| arn.starts_with(&format!("arn:aws:iam::{account}:role/")));
        let role = role.ok_or_else(denied)?;
        if role.external_id.is_some() && role.external_id.as_deref() != call.parameters.get("ExternalId") {
            return Err(denied());
        }
        let lifetime = Millis::from_secs(call.parameters.number("DurationSeconds")?.unwrap_or(LIFETIME_S));
        let key = format!("ASIA{:016}", self.arns.len() + 1);
        let assumed = format!("arn:aws:sts::{account}:assumed-role/{name}/{session}");
        self.arns.insert(key.clone(), assumed.clone());
        let credentials = Fields::new()
            .with("AccessKeyId", &key)
            .with("SecretAccessKey", format!("secret-of-{key}"))
            .with("SessionToken", format!("token-of-{key}"))
            .with("Expiration", iso(call.now + lifetime));
        let user = Fields::new().with("AssumedRoleId", format!("AROA{name}:{session}")).with("Arn", assumed);
        Ok(Fields::new().with("Credentials", credentials).with("AssumedRoleUser", user))
    }

    fn identity(&self, account: &str, caller: &str) -> Fields {
        let arn = self.arns.get(caller).cloned().unwrap_or_else(|| format!("arn:aws:iam::{account}:user/{caller}"));
        Fields::new().with("Arn", arn).with("UserId", caller).with("Account", account)
    }
}
