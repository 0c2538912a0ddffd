//! Marks: no key is left in what is recorded, and what has none stays as it is.

use std::path::PathBuf;
use std::sync::LazyLock;

use baton_llm::Marks;

pub(super) const KEY: &str = "sk-Zq81xW07-vK93mB52yTu";

static MARKS: LazyLock<Marks> = LazyLock::new(|| {
    let keys = [("A_KEY".to_owned(), KEY.to_owned()), ("B_KEY".to_owned(), "quo\"ted\\key".to_owned())];
    Marks::new(keys, [("project", PathBuf::from("/home/me/p")), ("home", PathBuf::from("/home/me"))])
});

pub(super) fn check(case: &[u8]) {
    let body = String::from_utf8_lossy(case);
    let marked = MARKS.stream(&body);
    assert!(!MARKS.has_key(&marked), "a key is left");
    if !["sk-", "quo", "/home"].iter().any(|start| body.contains(start))
        && !body.contains('\\')
        && !body.contains("{baton")
    {
        assert_eq!(marked, body, "nothing was to be marked");
    }
    assert!(!MARKS.has_key(&MARKS.expand(&marked)), "a key is back");
}
