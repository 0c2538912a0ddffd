//! Values by their paths: found, put, removed, merged and tightened. All of it is pure.

use serde_json::{Map, Value};

/// What stands at a path.
pub(crate) fn get<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        other => other.get(key),
    })
}

/// Puts a value at a path; whatever is not an object on the way becomes one.
pub(crate) fn put(value: &mut Value, path: &[String], new: Value) {
    let Some((first, rest)) = path.split_first() else {
        *value = new;
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    if let Value::Object(map) = value {
        put(map.entry(first.clone()).or_insert(Value::Null), rest, new);
    }
}

/// Takes away what stands at a path; whether there was anything.
pub(crate) fn remove(value: &mut Value, path: &[String]) -> bool {
    let Some((last, above)) = path.split_last() else { return false };
    let above = above.iter().try_fold(value, |value, key| match value {
        Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
        other => other.get_mut(key),
    });
    match above {
        Some(Value::Object(map)) => map.shift_remove(last).is_some(),
        Some(Value::Array(items)) => match last.parse::<usize>() {
            Ok(index) if index < items.len() => {
                items.remove(index);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

/// Objects merge key by key, lists are joined if so wanted; anything else is replaced.
pub(crate) fn merge(below: &mut Value, above: &Value, joins_lists: bool) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                match below.get_mut(key) {
                    Some(inner) => merge(inner, value, joins_lists),
                    None => {
                        below.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(below), Value::Array(above)) if joins_lists => {
            for item in above {
                if !below.contains(item) {
                    below.push(item.clone());
                }
            }
        }
        (below, above) => *below = above.clone(),
    }
}

/// The smaller of two numbers; what is no number is no limit.
pub(crate) fn least(one: &Value, other: &Value) -> Value {
    match (one.as_f64(), other.as_f64()) {
        (Some(a), Some(b)) if b < a => other.clone(),
        (None, Some(_)) => other.clone(),
        _ => one.clone(),
    }
}

/// Which items were taken out of lists, so that what is left is known by its first place.
#[derive(Default)]
pub(crate) struct Removed(Vec<Vec<String>>);

impl Removed {
    /// Where something stood before anything was taken away.
    pub(crate) fn first_place(&self, value: &Value, path: &[String]) -> Vec<String> {
        let mut place: Vec<String> = Vec::with_capacity(path.len());
        for (depth, key) in path.iter().enumerate() {
            let is_list = get(value, &path[..depth]).is_some_and(Value::is_array);
            let Some(mut index) = key.parse::<usize>().ok().filter(|_| is_list) else {
                place.push(key.clone());
                continue;
            };
            let here = self.0.iter().filter(|gone| gone.len() == depth + 1 && gone[..depth] == place[..]);
            let mut gone: Vec<usize> = here.filter_map(|gone| gone[depth].parse().ok()).collect();
            gone.sort_unstable();
            for gone in gone {
                if gone <= index {
                    index += 1;
                }
            }
            place.push(index.to_string());
        }
        place
    }

    pub(crate) fn push(&mut self, first_place: Vec<String>) {
        self.0.push(first_place);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn lists_are_replaced_or_joined() {
        for (joins, expected) in [(false, json!({"a": [2, 3], "b": 1})), (true, json!({"a": [1, 2, 3], "b": 1}))] {
            let mut below = json!({"a": [1, 2], "b": 1});
            merge(&mut below, &json!({"a": [2, 3]}), joins);
            assert_eq!(below, expected);
        }
    }

    #[test]
    fn no_number_is_no_limit() {
        assert_eq!(least(&json!(null), &json!(5)), json!(5));
        assert_eq!(least(&json!(5), &json!(null)), json!(5));
        assert_eq!(least(&json!(5), &json!(2.5)), json!(2.5));
        assert_eq!(least(&json!(2), &json!(5)), json!(2));
    }

    proptest! {
        #[test]
        fn items_keep_their_first_place(count in 1_usize..12, picks in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
            let mut value = json!({"list": (0..count).collect::<Vec<_>>()});
            let mut removed = Removed::default();
            for pick in picks {
                let left = value["list"].as_array().unwrap().clone();
                if left.is_empty() {
                    break;
                }
                let index = pick.index(left.len());
                let at = path(&format!("list.{index}"));
                let first = removed.first_place(&value, &at);
                prop_assert_eq!(&first, &path(&format!("list.{}", left[index])));
                prop_assert!(remove(&mut value, &at));
                removed.push(first);
            }
        }

        #[test]
        fn what_is_put_is_found_and_can_be_removed(keys in prop::collection::vec("[a-c]", 1..4), below in "[0-9]") {
            let mut value = json!({"a": {"b": below}});
            put(&mut value, &keys, json!(7));
            prop_assert_eq!(get(&value, &keys), Some(&json!(7)));
            prop_assert!(remove(&mut value, &keys));
            prop_assert_eq!(get(&value, &keys), None);
        }
    }
}
