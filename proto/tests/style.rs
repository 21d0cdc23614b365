//! The API keeps the API Improvement Proposals (AIP, <https://google.aip.dev>) that clients rely on without reading a comment:
//! standard methods, names of resources and their collections, behaviours of fields, and types.
//!
//! The agent's protocol has other rules: see `agent_service.proto`.

use std::collections::BTreeSet;

use fleetwright_proto::DESCRIPTOR_SET;
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    ReflectMessage, Value,
};

/// The services of clients.
const SERVICES: [&str; 2] = ["fleetwright.v1.FleetService", "fleetwright.v1.CapacityService"];

/// Streams of the decision log for replays: no resources, and no paths of HTTP.
const WITHOUT_PATH: [&str; 3] = ["ReadDecisions", "ReadLog", "ReadContent"];

/// Fields of these names have one of a few values that the server knows: an enum (AIP-126).
const OF_AN_ENUM: [&str; 6] = ["kind", "state", "stage", "outcome", "severity", "capacity_type"];

/// Fields of these names that are strings, and why.
const STRINGS: [(&str, &str); 1] =
    [("ReadContentResponse.kind", "belongs to the encoding of the release that wrote the content, as its bytes do")];

fn pool() -> DescriptorPool {
    DescriptorPool::decode(DESCRIPTOR_SET).expect("the set that the build script wrote")
}

fn methods(pool: &DescriptorPool) -> Vec<MethodDescriptor> {
    let service = |name: &&str| pool.get_service_by_name(name).expect("a service of the API");
    SERVICES.iter().map(service).flat_map(|service| service.methods().collect::<Vec<_>>()).collect()
}

/// The value of an option; `None` where it is not set.
fn option(pool: &DescriptorPool, options: &DynamicMessage, name: &str) -> Option<Value> {
    let extension = pool.get_extension_by_name(name).expect("a declared option");
    options.has_extension(&extension).then(|| options.get_extension(&extension).into_owned())
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Names of the behaviours of a field.
fn behaviours(pool: &DescriptorPool, field: &FieldDescriptor) -> BTreeSet<String> {
    let value = option(pool, &field.options(), "google.api.field_behavior");
    let Some(Kind::Enum(of)) =
        pool.get_extension_by_name("google.api.field_behavior").map(|extension| extension.kind())
    else {
        return BTreeSet::new();
    };
    let name = |value: &Value| value.as_enum_number().and_then(|number| name_of(&of, number));
    value.as_ref().and_then(Value::as_list).unwrap_or_default().iter().filter_map(name).collect()
}

fn name_of(of: &EnumDescriptor, number: i32) -> Option<String> {
    of.get_value(number).map(|value| value.name().to_owned())
}

/// Patterns of the names of a resource; empty for a message that is none.
fn patterns(pool: &DescriptorPool, message: &MessageDescriptor) -> Vec<String> {
    let resource = option(pool, &message.options(), "google.api.resource");
    let resource = resource.as_ref().and_then(Value::as_message);
    resource.map(|resource| texts(resource.get_field_by_name("pattern").as_deref())).unwrap_or_default()
}

/// A pattern as it is in paths: `clusters/*/nodes/*`.
fn with_stars(pattern: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "*".to_owned() } else { part.to_owned() };
    pattern.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// The method of HTTP, the path and the body of a method.
fn http(pool: &DescriptorPool, method: &MethodDescriptor) -> Option<(String, String, String)> {
    let rule = option(pool, &method.options(), "google.api.http")?;
    let rule = rule.as_message()?;
    let text = |name: &str| rule.get_field_by_name(name).and_then(|value| value.as_str().map(str::to_owned));
    let verbs = ["get", "put", "post", "delete", "patch"];
    let set = |verb: &&&str| rule.descriptor().get_field_by_name(verb).is_some_and(|field| rule.has_field(&field));
    let verb = verbs.iter().find(set)?;
    Some(((*verb).to_owned(), text(verb)?, text("body").unwrap_or_default()))
}

/// All messages that a message has, itself included.
fn reachable(of: &MessageDescriptor, found: &mut BTreeSet<String>, all: &mut Vec<MessageDescriptor>) {
    if !of.full_name().starts_with("fleetwright.") || !found.insert(of.full_name().to_owned()) {
        return;
    }
    all.push(of.clone());
    for field in of.fields() {
        if let Kind::Message(of) = field.kind() {
            reachable(&of, found, all);
        }
    }
}

fn messages(pool: &DescriptorPool) -> Vec<MessageDescriptor> {
    let (mut found, mut all) = (BTreeSet::new(), Vec::new());
    for method in methods(pool) {
        reachable(&method.input(), &mut found, &mut all);
        reachable(&method.output(), &mut found, &mut all);
    }
    all
}

/// What is wrong with a method that reads, lists, creates or deletes a resource (AIP-131, 132, 133, 135).
fn standard_method_problem(pool: &DescriptorPool, method: &MethodDescriptor) -> Option<String> {
    let (verb, path, body) = http(pool, method)?;
    let problem = |what: &str| Some(format!("{}: {what} ({verb} {path})", method.name()));
    let resource = |message: &MessageDescriptor| patterns(pool, message).iter().map(|one| with_stars(one)).collect();
    if let Some(noun) = method.name().strip_prefix("Get") {
        let found: Vec<String> = resource(&method.output());
        let is_named = found.iter().any(|pattern| path == format!("/v1/{{name={pattern}}}"));
        let is_standard = verb == "get" && method.output().name() == noun && is_named;
        return if is_standard { None } else { problem("no name and no path of its resource") };
    }
    if method.name().starts_with("List") {
        let rows = method.output().fields().find(|field| field.is_list());
        let Some(Kind::Message(row)) = rows.map(|field| field.kind()) else { return problem("no resources") };
        let in_parent = |pattern: &String| {
            let pattern = pattern.strip_suffix("/*").unwrap_or(pattern);
            match pattern.rsplit_once('/') {
                Some((parent, collection)) => path == format!("/v1/{{parent={parent}}}/{collection}"),
                None => path == format!("/v1/{pattern}"),
            }
        };
        let found: Vec<String> = resource(&row);
        return if found.iter().any(in_parent) { None } else { problem("a collection that its names do not have") };
    }
    if let Some(noun) = method.name().strip_prefix("Create") {
        let field =
            method.input().fields().find(|field| matches!(field.kind(), Kind::Message(of) if of.name() == noun));
        let is_standard =
            verb == "post" && method.output().name() == noun && field.is_some_and(|field| field.name() == body);
        return if is_standard { None } else { problem("no resource in its body and its answer") };
    }
    if method.name().starts_with("Delete") {
        let is_standard = verb == "delete" && method.output().full_name() == "google.protobuf.Empty";
        return if is_standard { None } else { problem("no deletion") };
    }
    // A custom method has a verb after its resource (AIP-136).
    if path.contains(':') { None } else { problem("neither a standard method nor a verb") }
}

#[test]
fn standard_methods_have_the_paths_and_names_of_their_resources() {
    let pool = pool();
    let problems: Vec<String> = methods(&pool).iter().filter_map(|of| standard_method_problem(&pool, of)).collect();
    assert_eq!(problems, [] as [&str; 0]);
    let without: Vec<String> = methods(&pool)
        .iter()
        .filter(|method| http(&pool, method).is_none())
        .map(|method| method.name().to_owned())
        .collect();
    assert_eq!(without, WITHOUT_PATH);
}

#[test]
fn every_method_says_what_its_arguments_are() {
    let pool = pool();
    for method in methods(&pool) {
        let (name, input) = (method.name().to_owned(), method.input());
        let signatures = texts(option(&pool, &method.options(), "google.api.method_signature").as_ref());
        for field in signatures.iter().flat_map(|signature| signature.split(',')) {
            assert!(input.get_field_by_name(field).is_some(), "{name}: its signature names {field}");
        }
        let is_required = |field: &FieldDescriptor| behaviours(&pool, field).contains("REQUIRED");
        let has_required = input.fields().any(|field| is_required(&field));
        assert!(!has_required || !signatures.is_empty(), "{name} has required fields and no signature");
        for field in input.fields() {
            let of = behaviours(&pool, &field);
            let is_input = of.contains("REQUIRED") != of.contains("OPTIONAL");
            assert!(is_input, "{name}: {} is required or optional: {of:?}", field.name());
            if matches!(field.name(), "name" | "parent") {
                let reference = option(&pool, &field.options(), "google.api.resource_reference");
                assert!(reference.is_some(), "{name}: {} names no type of resource", field.name());
            }
        }
    }
}

#[test]
fn every_resource_has_a_name_and_behaviours() {
    let pool = pool();
    let mut count = 0;
    for message in messages(&pool) {
        if patterns(&pool, &message).is_empty() {
            continue;
        }
        count += 1;
        for field in message.fields() {
            let of = behaviours(&pool, &field);
            assert!(!of.is_empty(), "{}.{} has no behaviour", message.name(), field.name());
            assert_eq!(of.contains("IDENTIFIER"), field.name() == "name", "{}.{}", message.name(), field.name());
        }
        assert!(message.get_field_by_name("name").is_some(), "{} has no name", message.name());
    }
    assert!(count >= 10, "{count} resources");
}

#[test]
fn no_integer_is_unsigned() {
    for message in messages(&pool()) {
        for field in message.fields() {
            let is_unsigned = matches!(field.kind(), Kind::Uint32 | Kind::Uint64 | Kind::Fixed32 | Kind::Fixed64);
            assert!(!is_unsigned, "{}.{}", message.name(), field.name());
        }
    }
}

#[test]
fn what_has_a_few_known_values_is_an_enum() {
    let (mut enums, mut strings) = (0, BTreeSet::new());
    for message in messages(&pool()) {
        for field in message.fields().filter(|field| OF_AN_ENUM.contains(&field.name())) {
            match field.kind() {
                Kind::Enum(_) => enums += 1,
                Kind::String => drop(strings.insert(format!("{}.{}", message.name(), field.name()))),
                _ => {}
            }
        }
    }
    let listed: BTreeSet<String> = STRINGS.iter().map(|(field, _why)| (*field).to_owned()).collect();
    assert_eq!(strings, listed, "make these an enum, or say in STRINGS why each is none");
    assert!(enums >= 10, "{enums} enums");
}

#[test]
fn every_file_has_a_package_of_go() {
    for file in pool().files().filter(|file| !file.name().starts_with("google/protobuf/")) {
        let package = file.file_descriptor_proto().options.as_ref().map(|options| options.go_package().to_owned());
        assert!(package.is_some_and(|package| !package.is_empty()), "{} has no go_package", file.name());
    }
}
