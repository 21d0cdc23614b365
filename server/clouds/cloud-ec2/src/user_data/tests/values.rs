use model::Millis;
use serde_json::json;

use crate::user_data::{kubelet, yaml};

#[test]
fn durations_have_the_form_of_go() {
    let cases = [
        (0, "0s"),
        (500, "500ms"),
        (1_500, "1.5s"),
        (90_000, "1m30s"),
        (120_000, "2m0s"),
        (3_600_000, "1h0m0s"),
        (3_661_010, "1h1m1.01s"),
        (-1, "0s"),
    ];
    for (millis, text) in cases {
        assert_eq!(kubelet::duration(Millis::new(millis)), text);
    }
}

#[test]
fn yaml_is_sorted_and_its_texts_are_quoted() {
    let value = json!({ "b": [{ "y": 1, "a": {} }, []], "a": true, "no": null, "x y": "on", "c": [1, "2"] });
    let expected = "a: true\nb:\n- a: {}\n  \"y\": 1\n- []\nc:\n- 1\n- \"2\"\n\"no\": null\n\"x y\": \"on\"";
    assert_eq!(yaml::write(&value), expected);
}
