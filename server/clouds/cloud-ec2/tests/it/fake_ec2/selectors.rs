//! What selectors of EC2NodeClasses ask for: subnets, security groups, images and reservations of EC2, parameters of
//! SSM, instance profiles of IAM, clusters of EKS, and prices. Counts calls, and fails on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::{Answer, Form, catalogue, element, numbered, ok, read};

pub(crate) const ACCOUNT: &str = "111122223333";

/// A resource of EC2: its fields, and the values that filters compare.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) id: String,
    pub(crate) owner: String,
    fields: Vec<(&'static str, String)>,
    filters: BTreeMap<String, String>,
}

impl Resource {
    /// A resource whose field `id_field` has this id.
    pub(crate) fn new(id_field: &'static str, filter: &str, id: &str) -> Self {
        let filters = [(filter.to_owned(), id.to_owned())].into();
        Self { id: id.to_owned(), owner: ACCOUNT.to_owned(), fields: vec![(id_field, id.to_owned())], filters }
    }

    pub(crate) fn field(mut self, name: &'static str, value: &str) -> Self {
        self.fields.push((name, value.to_owned()));
        self
    }

    /// A value that a filter compares.
    pub(crate) fn filter(mut self, name: &str, value: &str) -> Self {
        self.filters.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn tag(self, key: &str, value: &str) -> Self {
        self.filter(&format!("tag:{key}"), value)
    }

    fn passes(&self, form: &Form) -> bool {
        let filter = |number: usize| {
            let name = form.get(&format!("Filter.{number}.Name"))?;
            Some((name.as_str(), numbered(form, &format!("Filter.{number}.Value"))))
        };
        (1..).map_while(filter).all(|(name, values)| match name {
            "tag-key" => values.iter().any(|key| self.filters.contains_key(&format!("tag:{key}"))),
            // Everything here is available or active.
            "state" => true,
            _ => self.filters.get(name).is_some_and(|found| values.iter().any(|wanted| matches(wanted, found))),
        })
    }

    fn shown(&self) -> String {
        let fields: String = self.fields.iter().map(|(name, value)| element(name, value)).collect();
        element("item", &fields)
    }
}

fn matches(pattern: &str, value: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == value, |start| value.starts_with(start))
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) path: String,
    pub(crate) role: Option<String>,
    pub(crate) tags: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) subnets: Vec<Resource>,
    pub(crate) groups: Vec<Resource>,
    pub(crate) images: Vec<Resource>,
    pub(crate) reservations: Vec<Resource>,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) profiles: BTreeMap<String, Profile>,
    pub(crate) roles: BTreeSet<String>,
    /// The answer of `DescribeCluster` by name.
    pub(crate) clusters: BTreeMap<String, Value>,
    pub(crate) access_entries: BTreeSet<(String, String)>,
    /// Tenancy, and an element of `PriceList`.
    pub(crate) products: Vec<(&'static str, Value)>,
    pub(crate) catalogue: catalogue::Catalogue,
    pub(crate) page: Option<usize>,
    pub(crate) log: CallLog,
}

/// The calls so far, and the failures that are set.
#[derive(Debug, Default)]
pub(crate) struct CallLog {
    failures: BTreeMap<String, (u16, String)>,
    calls: BTreeMap<String, usize>,
    last: BTreeMap<String, Form>,
}

type Shared = Arc<Mutex<Account>>;

/// A listening fake; its task ends with the test's runtime.
pub(crate) struct FakeAccount {
    address: SocketAddr,
    account: Shared,
}

impl FakeAccount {
    pub(crate) async fn start(account: Account) -> Self {
        let account = Arc::new(Mutex::new(account));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/", post(answer))
            .route("/clusters/{name}", get(cluster))
            .route("/clusters/{name}/access-entries/{arn}", get(access_entry))
            .with_state(Arc::clone(&account));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, account }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap()
    }

    /// Makes every call of `action` fail from now on.
    pub(crate) fn fail(&self, action: &str, status: u16, code: &str) {
        self.account().log.failures.insert(action.to_owned(), (status, code.to_owned()));
    }

    /// Ends the failures of `action`.
    pub(crate) fn heal(&self, action: &str) {
        self.account().log.failures.remove(action);
    }

    /// Number of calls of `action`.
    pub(crate) fn count(&self, action: &str) -> usize {
        self.account().log.calls.get(action).copied().unwrap_or(0)
    }

    /// Number of calls by action.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        self.account().log.calls.clone()
    }

    /// Parameters of the last call of `action`.
    pub(crate) fn last(&self, action: &str) -> Form {
        self.account().log.last[action].clone()
    }
}

impl CallLog {
    /// Counts the call; the failure that is set for it.
    fn begin(&mut self, action: &str, form: &Form) -> Option<(u16, String)> {
        *self.calls.entry(action.to_owned()).or_default() += 1;
        self.last.insert(action.to_owned(), form.clone());
        self.failures.get(action).cloned()
    }
}

async fn answer(State(account): State<Shared>, headers: HeaderMap, body: String) -> Answer {
    let mut account = account.lock().unwrap();
    match headers.get("x-amz-target").map(|target| target.to_str().unwrap().rsplit('.').next().unwrap().to_owned()) {
        Some(action) => json_call(&mut account, &action, &serde_json::from_str(&body).unwrap()),
        None => form_call(&mut account, &read(&body)),
    }
}

fn form_call(account: &mut Account, form: &Form) -> Answer {
    let action = form["Action"].as_str();
    let is_iam = form["Version"] == "2010-05-08";
    if let Some((status, code)) = account.log.begin(action, form) {
        return if is_iam { iam_error(status, &code, "injected") } else { failure(status, &code) };
    }
    match action {
        "DescribeSubnets" => paged(account.page, form, "subnetSet", &account.subnets),
        "DescribeSecurityGroups" => paged(account.page, form, "securityGroupInfo", &account.groups),
        "DescribeImages" => paged(account.page, form, "imagesSet", &account.images),
        "DescribeCapacityReservations" => reservations(account, form),
        _ if is_iam => profile_call(account, action, form),
        "DescribeInstanceTypes"
        | "DescribeInstanceTypeOfferings"
        | "DescribeAvailabilityZones"
        | "DescribeSpotPriceHistory" => catalogue::describe(&account.catalogue, form),
        other => failure(400, &format!("InvalidAction.{other}")),
    }
}

fn failure(status: u16, code: &str) -> Answer {
    super::error(StatusCode::from_u16(status).unwrap(), code, "an injected failure")
}

fn paged(most: Option<usize>, form: &Form, list: &str, all: &[Resource]) -> Answer {
    let owners = numbered(form, "Owner");
    let owned = |found: &&Resource| {
        let is = |owner: &&str| *owner == found.owner || *owner == "self" && found.owner == ACCOUNT;
        owners.is_empty() || owners.iter().any(is)
    };
    let found: Vec<&Resource> = all.iter().filter(|found| found.passes(form)).filter(owned).collect();
    let first: usize = form.get("NextToken").map_or(0, |token| token.parse().unwrap());
    let last = first.saturating_add(most.unwrap_or(usize::MAX)).min(found.len());
    let shown: String = found[first..last].iter().map(|found| found.shown()).collect();
    let next = if last < found.len() { element("nextToken", &last.to_string()) } else { String::new() };
    ok(form["Action"].as_str(), &(element(list, &shown) + &next))
}

fn reservations(account: &Account, form: &Form) -> Answer {
    let ids = numbered(form, "CapacityReservationId");
    let known = |id: &&str| account.reservations.iter().any(|found| found.id == **id);
    if !ids.iter().all(known) {
        return failure(400, "InvalidCapacityReservationId.NotFound");
    }
    let wanted = |found: &&Resource| ids.is_empty() || ids.contains(&found.id.as_str());
    let all: Vec<Resource> = account.reservations.iter().filter(wanted).cloned().collect();
    paged(account.page, form, "capacityReservationSet", &all)
}

fn iam_error(status: u16, code: &str, message: &str) -> Answer {
    let error = element("Error", &(element("Type", "Sender") + &element("Code", code) + &element("Message", message)));
    (StatusCode::from_u16(status).unwrap(), format!("<ErrorResponse>{error}<RequestId>r-1</RequestId></ErrorResponse>"))
}

fn iam_ok(action: &str, inner: &str) -> Answer {
    let result = element(&format!("{action}Result"), inner);
    let space = "https://iam.amazonaws.com/doc/2010-05-08/";
    (StatusCode::OK, format!("<{action}Response xmlns=\"{space}\">{result}</{action}Response>"))
}

fn tags_of(form: &Form) -> BTreeMap<String, String> {
    let at = |number: usize| {
        let field = |name: &str| form.get(&format!("Tags.member.{number}.{name}")).cloned();
        Some((field("Key")?, field("Value")?))
    };
    (1..).map_while(at).collect()
}

fn profile_call(account: &mut Account, action: &str, form: &Form) -> Answer {
    let name = form["InstanceProfileName"].as_str();
    if action == "CreateInstanceProfile" {
        if account.profiles.contains_key(name) {
            return iam_error(409, "EntityAlreadyExists", "it exists");
        }
        let profile = Profile { path: form["Path"].clone(), role: None, tags: tags_of(form) };
        account.profiles.insert(name.to_owned(), profile);
    }
    let Some(profile) = account.profiles.get_mut(name) else {
        return iam_error(404, "NoSuchEntity", &format!("Instance Profile {name} cannot be found."));
    };
    match action {
        "AddRoleToInstanceProfile" if !account.roles.contains(&form["RoleName"]) => {
            iam_error(404, "NoSuchEntity", &format!("The role with name {} cannot be found.", form["RoleName"]))
        }
        "AddRoleToInstanceProfile" if profile.role.is_some() => iam_error(409, "LimitExceeded", "one role"),
        "AddRoleToInstanceProfile" => {
            profile.role = Some(form["RoleName"].clone());
            iam_ok(action, "")
        }
        "TagInstanceProfile" => {
            profile.tags.extend(tags_of(form));
            iam_ok(action, "")
        }
        _ => iam_ok(action, &element("InstanceProfile", &shown_profile(name, profile))),
    }
}

pub(crate) fn role_arn(role: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT}:role/{role}")
}

fn shown_profile(name: &str, profile: &Profile) -> String {
    let date = element("CreateDate", "2026-01-02T03:04:05Z");
    let role = profile.role.as_ref().map_or_else(String::new, |role| {
        let fields = [("Path", "/"), ("RoleName", role), ("RoleId", "AROA1"), ("Arn", &role_arn(role))];
        element("member", &(fields.map(|(name, value)| element(name, value)).concat() + &date))
    });
    let tag = |(key, value): (&String, &String)| element("member", &(element("Key", key) + &element("Value", value)));
    let arn = format!("arn:aws:iam::{ACCOUNT}:instance-profile/{name}");
    [
        element("Path", &profile.path),
        element("InstanceProfileName", name),
        element("InstanceProfileId", "AIPA1"),
        element("Arn", &arn),
        date,
        element("Roles", &role),
        element("Tags", &profile.tags.iter().map(tag).collect::<String>()),
    ]
    .concat()
}

fn json_error(status: u16, code: &str) -> Answer {
    let body = json!({"__type": code, "message": "an injected failure"}).to_string();
    (StatusCode::from_u16(status).unwrap(), body)
}

fn json_call(account: &mut Account, action: &str, body: &Value) -> Answer {
    let text = |(key, value): (&String, &Value)| (key.clone(), value.to_string());
    let form = body.as_object().unwrap().iter().map(text).collect();
    if let Some((status, code)) = account.log.begin(action, &form) {
        return json_error(status, &code);
    }
    match action {
        "GetParameter" => {
            let name = body["Name"].as_str().unwrap();
            let Some(value) = account.parameters.get(name) else { return json_error(400, "ParameterNotFound") };
            (StatusCode::OK, json!({"Parameter": {"Name": name, "Value": value}}).to_string())
        }
        _ => products(account, body),
    }
}

fn products(account: &Account, body: &Value) -> Answer {
    let filters = body["Filters"].as_array().unwrap();
    let tenancy = filters.iter().find(|filter| filter["Field"] == "tenancy").unwrap()["Value"].as_str().unwrap();
    let all: Vec<String> =
        account.products.iter().filter(|(of, _)| *of == tenancy).map(|(_, product)| product.to_string()).collect();
    let first: usize = body["NextToken"].as_str().map_or(0, |token| token.parse().unwrap());
    let last = first.saturating_add(account.page.unwrap_or(100)).min(all.len());
    let mut answer = json!({"FormatVersion": "aws_v1", "PriceList": all[first..last]});
    if last < all.len() {
        answer["NextToken"] = json!(last.to_string());
    }
    (StatusCode::OK, answer.to_string())
}

async fn cluster(State(account): State<Shared>, Path(name): Path<String>) -> Answer {
    let mut account = account.lock().unwrap();
    if let Some((status, code)) = account.log.begin("DescribeCluster", &Form::new()) {
        return json_error(status, &code);
    }
    match account.clusters.get(&name) {
        Some(cluster) => (StatusCode::OK, json!({"cluster": cluster}).to_string()),
        None => json_error(404, "ResourceNotFoundException"),
    }
}

async fn access_entry(State(account): State<Shared>, Path((name, arn)): Path<(String, String)>) -> Answer {
    let mut account = account.lock().unwrap();
    if let Some((status, code)) = account.log.begin("DescribeAccessEntry", &Form::new()) {
        return json_error(status, &code);
    }
    if account.access_entries.contains(&(name.clone(), arn.clone())) {
        (StatusCode::OK, json!({"accessEntry": {"clusterName": name, "principalArn": arn}}).to_string())
    } else {
        json_error(404, "ResourceNotFoundException")
    }
}
