//! The forms of tokens: forms that belong to nobody: signed tokens, key material, URLs. Values are made up; the marks inside keep other scanners calm.

use super::{Check, Form};

#[rustfmt::skip]
pub(super) static FORMS: &[Form] = &[
    Form {
        kind: "jwt", anchors: &["eyJ"],
        ahead: r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){0,2}",
        behind: "", check: Check::Real,
        like: &[
            "«eyJhbGciOiJFUzI1NiJ9.eyJn7bAILLXvA306lsvVM⟦+⟧_OvlacxtqjkKvOupRqOrU1CuczAUZ5uzhdW6VvHDwc.⟦+⟧pzF_8ZWIWXhRVolR9ORjnmZc4oQu_5VHNKESiIWCCd4»",
            "?t=«eyJF10sdiP3LMU5oVmBIVXE6EBnuHDKsS.eyJqRT⟦+⟧6v5F3N9cmyRj7AzDuSOTF87qjenm34JYsidYy.zd⟦+⟧1M89ORRv91gPIsTZCOGNc9yXdgWgfBnwxvz4tWZNK»&x=1",
        ],
        unlike: &[
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
            "eyJhbGciOiJIUzI1NiJ9",
        ],
    },
    Form {
        kind: "nats-seed", anchors: &["SU", "SA", "SN", "SC", "SO", "SX"],
        ahead: r"S[UANCOX][A-Z2-7]{56}\b",
        behind: "", check: Check::Real,
        like: &[
            "«SUAW7ZKJ3L6NMPWGQRW⟦+⟧H6SYNU3ATQIIKSG3533⟦+⟧MGJ2LJUO3YRJGLMK6M47»",
            "«SAAGBM4CG3NTOLWXG6E⟦+⟧KTJQGDDMPNFQQFQ7LQA⟦+⟧T5OXP2HOAHVG47BONWCU»",
        ],
        unlike: &[
            "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
            "SAFEBROWSING",
        ],
    },
    Form {
        kind: "age-key", anchors: &["AGE-SECRET-KEY-1", "AGE-PLUGIN-"],
        ahead: "AGE-(?:SECRET-KEY-1|PLUGIN-[A-Z0-9-]{1,40}-1)[A-Z0-9]{50,}",
        behind: "", check: Check::Real,
        like: &[
            "# «AGE-SECRET-KEY-1Y08ZOT0E⟦+⟧62174RL00ND9N3P96HFX1AAQ5⟦+⟧KM4IT1NJZASBY2U7OVEIDFSCS»",
        ],
        unlike: &[
            "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p",
        ],
    },
    Form {
        kind: "private-key", anchors: &["LS0tLS1CRUdJTi"],
        ahead: "LS0tLS1CRUdJTi(?:BQUklWQVRF|BSU0EgUFJJVkFURS|BFQyBQUklWQVRF|BPUEVOU1NIIFBSSVZBVEUg|BFTkNSWVBURUQgUFJJVkFURS)[A-Za-z0-9+/=]{16,}",
        behind: "", check: Check::None,
        like: &[
            "client-key-data: «LS0tLS1CRUdJTiBSU0EgUFJJVkFURSTyiszK⟦+⟧HFupE7TBxu6XtLnZogva5HHhdTf9cYGb7OYMU⟦+⟧ept1YZhwjR1HlCpcQ37MJcYwnRXJmhKbJ8R51»",
        ],
        unlike: &[
            "certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM",
        ],
    },
    Form {
        kind: "url-password", anchors: &["://"],
        ahead: r#"://[^\s/:@'\"<>`]{0,64}:([^\s/@'\"<>`]{3,256})@[A-Za-z0-9_\[$-]"#,
        behind: "", check: Check::Password,
        like: &[
            "postgres://app:«p4s⟦+⟧sw⟦+⟧0rd»@db/app",
            "redis://:«PHjBaF⟦+⟧Cncq6yT⟦+⟧6lctwEG»@cache:6379/0",
            "https://x-access-token:«7zGZTgt0Bz⟦+⟧YXIzeFBBJg⟦+⟧OoF0FjMmhE»@github.com/o/r.git",
            "mongodb+srv://u:«aB3⟦+⟧-x⟦+⟧_Y9»@c0.example.net/db",
        ],
        unlike: &[
            "https://user@example.com/repo.git",
            "http://localhost:8080/@scope/pkg",
            "postgres://user:password@localhost/db",
            "postgres://user:${DB_PASSWORD}@db/app",
            "https://user:<token>@host/x",
            "amqp://guest:guest@localhost",
            "https://USER:PASS@host",
        ],
    },
    Form {
        kind: "url-password", anchors: &["://"],
        ahead: "://([A-Za-z0-9_-]{30,256})(?::x-oauth-basic|:)?@[A-Za-z0-9]",
        behind: "", check: Check::Random,
        like: &[
            "https://«IS0acQlPU19Dk⟦+⟧vGi8qaTmD3HGb⟦+⟧EksNl1u3RrfSLk»@github.com/o/r",
        ],
        unlike: &[
            "https://user@example.com/repo.git",
        ],
    },
];
