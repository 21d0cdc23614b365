//! What an action works with beside its own state.

use cloud::simulated::SimulatedCloud;
use model::Timestamp;
use serde_json::Value;

use super::authorization::Caller;
use crate::api_error::ApiError;
use crate::faults::switchboard::Switchboard;
use crate::query::filters::Filters;
use crate::query::paging::PageRequest;
use crate::query::parameters::Parameters;
use crate::service::Service;
use crate::settings::Tags;
use crate::value::{Fields, Node};

/// A call at a time, on a cloud, under faults.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) service: Service,
    pub(crate) action: &'a str,
    /// Parameters of the form, or the fields of the JSON body.
    pub(crate) parameters: &'a Parameters,
    /// JSON body; null for a form.
    pub(crate) body: &'a Value,
    /// Host and port that the caller used.
    pub(crate) host: &'a str,
    pub(crate) caller: &'a Caller,
    pub(crate) now: Timestamp,
    pub(crate) cloud: &'a mut SimulatedCloud,
    pub(crate) faults: &'a mut Switchboard,
}

impl Context<'_> {
    /// The parameter `name`.
    ///
    /// # Errors
    /// `MissingParameter`.
    pub(crate) fn required(&self, name: &str) -> Result<&str, ApiError> {
        self.parameters.required(name)
    }

    /// The objects of the list `name` in a JSON body.
    pub(crate) fn items(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.body[name].as_array().into_iter().flatten()
    }

    /// The page that the call asks for.
    ///
    /// # Errors
    /// As [`PageRequest::read`].
    pub(crate) fn page(&self) -> Result<PageRequest, ApiError> {
        PageRequest::read(self.parameters, self.faults.page_size(self.action))
    }

    /// The page of `entries` that the call asks for, as the list `set` of the answer. The entries never change.
    ///
    /// # Errors
    /// As [`PageRequest::read`].
    pub(crate) fn listed<T>(
        &self,
        set: &'static str,
        entries: impl IntoIterator<Item = T>,
        shown: impl Fn(T) -> Fields,
    ) -> Result<Fields, ApiError> {
        let (page, token) = self.page()?.take_by_position(entries);
        Ok(Fields::new().list(set, page.into_iter().map(shown)).maybe("nextToken", token))
    }

    /// As [`Context::listed`], for the entries that pass the filters of the call, whose names are in `known`.
    ///
    /// # Errors
    /// As [`Filters::read`] and [`PageRequest::read`].
    pub(crate) fn filtered<T>(
        &self,
        set: &'static str,
        known: &[&str],
        entries: impl IntoIterator<Item = T>,
        passes: impl Fn(&Filters, &T) -> bool,
        shown: impl Fn(T) -> Fields,
    ) -> Result<Fields, ApiError> {
        let filters = Filters::read(self.parameters, known)?;
        self.listed(set, entries.into_iter().filter(|entry| passes(&filters, entry)), shown)
    }

    /// Whether something made at `made` is visible with this lag.
    pub(crate) fn is_visible(&self, made: Timestamp, lag_ms: i64) -> bool {
        (self.now - made).get() >= lag_ms
    }
}

/// A time as the services write it, in whole milliseconds.
pub(crate) fn iso(time: Timestamp) -> String {
    format!("{:.3}", civil(time))
}

pub(crate) fn civil(time: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(time.as_millis()).unwrap_or_default()
}

/// Tags as a response of EC2 has them.
pub(crate) fn tag_set(tags: &Tags) -> Node {
    let pair = |(key, value): (&String, &String)| Fields::new().with("key", key).with("value", value).into();
    Node::List(tags.iter().map(pair).collect())
}
