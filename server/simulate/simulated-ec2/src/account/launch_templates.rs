//! Launch templates: CreateLaunchTemplate, DescribeLaunchTemplates, DeleteLaunchTemplate.

mod content;

use std::collections::BTreeMap;

use model::Timestamp;

use super::context::{Context, iso, tag_set};
use crate::api_error::ApiError;
use crate::query::filters::Filters;
use crate::query::parameters::Parameters;
use crate::settings::{Tags, TemplateSeed};
use crate::value::Fields;

/// Maximum number of tags of a resource.
const MAX_TAGS: usize = 50;

/// A launch template. It has one version, because no action here makes another.
#[derive(Debug, Clone)]
pub(crate) struct LaunchTemplate {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) data: Parameters,
    pub(crate) tags: Tags,
    created: Timestamp,
}

/// The templates of the account, by name.
#[derive(Debug, Default)]
pub(crate) struct LaunchTemplates {
    by_name: BTreeMap<String, LaunchTemplate>,
    /// Parameters and template name by client token.
    tokens: BTreeMap<String, (Parameters, String)>,
    created: u64,
}

impl LaunchTemplates {
    pub(crate) fn new(seeds: &[TemplateSeed]) -> Self {
        let mut templates = Self::default();
        for seed in seeds {
            let data = Parameters::new(seed.data.clone());
            templates.insert(&seed.name, data, Tags::new(), Timestamp::from_millis(0));
        }
        templates
    }

    fn insert(&mut self, name: &str, data: Parameters, tags: Tags, created: Timestamp) -> &LaunchTemplate {
        self.created += 1;
        let id = format!("lt-{:017x}", self.created);
        let template = LaunchTemplate { id, name: name.to_owned(), data, tags, created };
        self.by_name.entry(name.to_owned()).insert_entry(template).into_mut()
    }

    pub(crate) fn create(&mut self, call: &Context<'_>) -> Result<Fields, ApiError> {
        let name = call.required("LaunchTemplateName")?;
        check_name(name)?;
        let token = call.parameters.get("ClientToken");
        if let Some(earlier) = token.and_then(|token| self.of_token(token, call.parameters)) {
            return earlier;
        }
        let data = call.parameters.below("LaunchTemplateData");
        content::check(&data)?;
        let tags = call.parameters.tags_of("launch-template");
        check_tags(&tags)?;
        if self.by_name.contains_key(name) {
            let message = format!("Launch template name {name} already in use.");
            return Err(ApiError::new("InvalidLaunchTemplateName.AlreadyExistsException", message));
        }
        let created = Fields::new().with("launchTemplate", shown(self.insert(name, data, tags, call.now)));
        if let Some(token) = token {
            self.tokens.insert(token.to_owned(), (call.parameters.clone(), name.to_owned()));
        }
        Ok(created)
    }

    /// The answer to a repeated call.
    fn of_token(&self, token: &str, parameters: &Parameters) -> Option<Result<Fields, ApiError>> {
        let (sent, name) = self.tokens.get(token)?;
        if sent != parameters {
            let message =
                "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).";
            return Some(Err(ApiError::new("IdempotentParameterMismatch", message)));
        }
        self.by_name.get(name).map(|template| Ok(Fields::new().with("launchTemplate", shown(template))))
    }

    pub(crate) fn describe(&self, call: &Context<'_>) -> Result<Fields, ApiError> {
        let filters = Filters::read(call.parameters, &["tag:", "tag-key"])?;
        let lag = call.faults.lag().launch_templates_ms;
        let passes =
            |template: &&LaunchTemplate| call.is_visible(template.created, lag) && filters.pass(&template.tags, |_| "");
        let (page, token) = call.page()?.take(self.by_name.values(), |template| &template.name, passes);
        Ok(Fields::new().list("launchTemplates", page.into_iter().map(shown)).maybe("nextToken", token))
    }

    pub(crate) fn delete(&mut self, call: &Context<'_>) -> Result<Fields, ApiError> {
        let name = call.required("LaunchTemplateName")?;
        let removed = self.by_name.remove(name).ok_or_else(|| unknown_name(name))?;
        Ok(Fields::new().with("launchTemplate", shown(&removed)))
    }

    pub(crate) fn named(&self, name: &str) -> Option<&LaunchTemplate> {
        self.by_name.get(name)
    }

    pub(crate) fn by_id(&self, id: &str) -> Option<&LaunchTemplate> {
        self.by_name.values().find(|template| template.id == id)
    }

    /// The template that a launch refers to, by the names of `LaunchTemplateSpecification`.
    ///
    /// # Errors
    /// An unknown name or version.
    pub(crate) fn resolve(&self, reference: &Parameters, call: &Context<'_>) -> Result<&LaunchTemplate, ApiError> {
        let lag = call.faults.lag().launch_templates_ms;
        let name = reference.required("LaunchTemplateName")?;
        let found = self.by_name.get(name).filter(|found| call.is_visible(found.created, lag));
        let template = found.ok_or_else(|| unknown_name(name))?;
        match reference.get("Version") {
            None | Some("1" | "$Default" | "$Latest") => Ok(template),
            Some(version) => {
                let message = format!("Could not find launch template version {version} of {name}");
                Err(ApiError::new("InvalidLaunchTemplateId.VersionNotFound", message))
            }
        }
    }
}

fn unknown_name(name: &str) -> ApiError {
    let message = format!("At least one of the launch templates specified in the request does not exist: {name}");
    ApiError::new("InvalidLaunchTemplateName.NotFoundException", message)
}

/// 3 to 128 letters, digits and `().-/_` (API reference: CreateLaunchTemplate).
fn check_name(name: &str) -> Result<(), ApiError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"().-/_".contains(&byte);
    if (3..=128).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(ApiError::new(
        "InvalidLaunchTemplateName.MalformedException",
        format!("The launch template name '{name}' is malformed"),
    ))
}

/// At most 50 tags, with keys of at most 128 and values of at most 256 characters, none of them reserved.
pub(crate) fn check_tags(tags: &Tags) -> Result<(), ApiError> {
    if tags.len() > MAX_TAGS {
        return Err(ApiError::new("TagLimitExceeded", format!("{} tags, where {MAX_TAGS} are allowed", tags.len())));
    }
    let is_bad = |(key, value): &(&String, &String)| {
        key.is_empty() || key.chars().count() > 128 || value.chars().count() > 256 || key.starts_with("aws:")
    };
    match tags.iter().find(is_bad) {
        Some((key, _)) => {
            Err(ApiError::new("InvalidParameterValue", format!("The tag with the key '{key}' is not allowed")))
        }
        None => Ok(()),
    }
}

fn shown(template: &LaunchTemplate) -> Fields {
    Fields::new()
        .with("launchTemplateId", &template.id)
        .with("launchTemplateName", &template.name)
        .with("createTime", iso(template.created))
        .with("defaultVersionNumber", 1_u64)
        .with("latestVersionNumber", 1_u64)
        .with("tagSet", tag_set(&template.tags))
}
