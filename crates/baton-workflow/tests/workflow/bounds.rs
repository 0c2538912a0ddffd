//! The upper bound of a run, known before it starts.

use baton_core::{Price, Usd};
use baton_workflow::{Bound, bound};

use crate::support::define;

fn usd(dollars: f64) -> Usd {
    Usd::from_dollars(dollars).unwrap()
}

/// Two agent states, a person who can send back as often as they like, and an action.
fn text(of_b: &str, of_run: &str) -> String {
    format!(
        "workflow(name = \"w\", {of_run} roles = {{\"r\": role(\"a\", [], READING), \"s\": role(\"a\", [], READING)}}, states = {{\n\
         \"A\": state(\"r\", evidence({{\"x\": \"text\"}}), {{\"pass\": \"B\"}}, tokens = 1000000),\n\
         \"B\": state(\"s\", evidence({{\"x\": \"text\"}}), {{\"pass\": \"ASK\"}}, retries = 1, tokens = 2000000{of_b}),\n\
         \"ASK\": human(\"?\", [\"yes\", \"no\"], {{\"yes\": \"COMMIT\", \"no\": \"A\"}}, retries = None),\n\
         \"COMMIT\": action(commit(\"m\"), {{\"pass\": \"D\"}}, retries = 0), \"D\": done()}})\n"
    )
}

fn of(text: &str, price: Option<Price>) -> Bound {
    bound(&define(text), &|_, role| price.filter(|_| role.as_str() == "r").or(price))
}

#[test]
fn attempts_and_tokens_are_summed_up() {
    // A four times, B twice, the commit once; the person once more than all of them, and once for the way to the end.
    let expected = 4 + 2 + 1 + (4 + 2 + 1 + 1);
    assert_eq!(of(&text("", ""), None), Bound { steps: expected, tokens: 3_000_000, usd: None });
    assert_eq!(of(&text("", "tokens = 5,"), None).tokens, 5);
    assert_eq!(of(&text("", "tokens = 5000000,"), None).tokens, 3_000_000);
}

#[test]
fn money_is_bounded_where_prices_or_caps_are_known() {
    let price = Price { input: usd(1.0), output: usd(5.0), cache_read: Some(usd(0.1)), cache_write: Some(usd(7.0)) };
    assert_eq!(of(&text("", ""), Some(price)).usd, Some(usd(21.0)), "all tokens of the dearest kind");
    assert_eq!(of(&text(", usd = 3", ""), Some(price)).usd, Some(usd(10.0)), "a state has a cap of its own");
    assert_eq!(of(&text(", usd = 30", ""), Some(price)).usd, Some(usd(21.0)));
    assert_eq!(of(&text("", "usd = 4,"), Some(price)).usd, Some(usd(4.0)));
    assert_eq!(of(&text("", "usd = 40,"), Some(price)).usd, Some(usd(21.0)));
    assert_eq!(of(&text("", "usd = 4,"), None).usd, Some(usd(4.0)));
    assert_eq!(of(&text(", usd = 3", ""), None).usd, None, "the other state has neither");
    let reading = Price { input: usd(6.0), output: usd(5.0), cache_read: None, cache_write: Some(usd(1.0)) };
    assert_eq!(of(&text("", ""), Some(reading)).usd, Some(usd(18.0)));
    let fresh = Price { input: usd(6.0), output: usd(5.0), cache_read: Some(usd(0.1)), cache_write: Some(usd(1.0)) };
    assert_eq!(of(&text("", ""), Some(fresh)).usd, Some(usd(18.0)));
    let cached = Price { input: usd(1.0), output: usd(5.0), cache_read: Some(usd(9.0)), cache_write: None };
    assert_eq!(of(&text("", ""), Some(cached)).usd, Some(usd(27.0)), "whatever the dearest is");
    let output = Price { input: usd(1.0), output: usd(5.0), cache_read: None, cache_write: None };
    assert_eq!(of(&text("", ""), Some(output)).usd, Some(usd(15.0)));
}

#[test]
fn runs_inside_are_multiplied() {
    let inside = |state: &str| {
        let text = format!(
            "part = workflow(name = \"part\", params = {{\"it\": string()}}, roles = {{\"r\": role(\"a\", [], READING)}}, states = {{\n\
             \"A\": state(\"r\", evidence({{\"x\": \"text\"}}), {{\"pass\": \"D\"}}, tokens = 10, usd = 2), \"D\": done()}})\n\
             workflow(name = \"w\", params = {{\"l\": list()}}, states = {{\"A\": {state}, \"D\": done()}})\n"
        );
        of(&text, None)
    };
    let expected = |runs: u64, own: u64| Bound {
        steps: runs * 4 + own,
        tokens: runs * 10,
        usd: Some(usd(f64::from(u32::try_from(2 * runs).unwrap()))),
    };
    assert_eq!(inside("call(part, on = {\"pass\": \"D\"}, retries = 1)"), expected(2, 2));
    assert_eq!(
        inside("parallel({\"a\": part, \"b\": part, \"c\": part}, {\"pass\": \"D\"}, retries = 0)"),
        expected(3, 1)
    );
    assert_eq!(inside("each(\"l\", part, \"it\", {\"pass\": \"D\"}, retries = 1, max = 5)"), expected(10, 2));
    assert_eq!(inside("each(\"l\", part, \"it\", {\"pass\": \"D\"})"), expected(80, 4));
}
