//! Short days: the whole one is `steadyraid-sim day`, two minutes.

use std::process::Command;

fn day(words: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_steadyraid-sim"))
        .arg("day")
        .args(words)
        .output()
        .expect("it runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What does not depend on this machine's allocator.
fn facts(said: &str) -> serde_json::Value {
    let mut all: serde_json::Value = serde_json::from_str(said).expect(said);
    for look in all["looks"].as_array_mut().expect("looks") {
        let look = look.as_object_mut().expect("an object");
        for name in ["heap_bytes", "rest_bytes", "resident_bytes", "oracle_bytes"] {
            look.remove(name).expect(name);
        }
    }
    all
}

#[test]
fn an_hour_loses_nothing_and_is_the_same_twice() {
    let words = ["--hours", "1", "--seed", "1", "--json"];
    let (well, said) = day(&words);
    assert!(well, "{said}");
    let (first, (_, again)) = (facts(&said), day(&words));
    assert_eq!(first, facts(&again));
    assert!(first["requests"].as_u64() > Some(5_000), "{said}");
    assert!(first["deeds"].as_object().is_some_and(|deeds| deeds.len() >= 8), "{said}");
    let (well, other) = day(&["--hours", "1", "--seed", "2", "--json"]);
    assert!(well, "{other}");
    assert_ne!(first["digest"], facts(&other)["digest"]);
}
