//! Values as people type them: texts become numbers and truths.

use serde_json::{Number, Value};

use crate::field::is_countable;

/// The one text that was given.
pub(crate) fn one<'a>(typed: &[&'a str]) -> Result<&'a str, String> {
    match typed {
        [one] => Ok(one),
        _ => Err(format!("it is given {} times, but holds one value", typed.len())),
    }
}

pub(crate) fn number(text: &str) -> Result<Value, String> {
    let number = serde_json::from_str::<Number>(text.trim()).map(Value::Number);
    let number = number.map_err(|_| format!("`{text}` is not a number"))?;
    if is_countable(&number) { Ok(number) } else { Err(format!("`{text}` is too large a number")) }
}

pub(crate) fn truth(text: &str) -> Result<Value, String> {
    match text.trim() {
        "true" | "yes" => Ok(Value::Bool(true)),
        "false" | "no" => Ok(Value::Bool(false)),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

/// One item for each text.
pub(crate) fn list(typed: &[&str]) -> Value {
    typed.iter().map(|text| Value::String((*text).to_owned())).collect()
}
