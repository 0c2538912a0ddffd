//! The forms of tokens: other services. Values are made up; the marks inside keep other scanners calm.

use super::{Check, Form};

#[rustfmt::skip]
pub(super) static FORMS: &[Form] = &[
    Form {
        kind: "slack-token", anchors: &["xoxa-", "xoxb-", "xoxp-", "xoxo-", "xoxs-", "xoxr-", "xoxe-", "xoxe.", "xoxc-", "xoxd-", "xapp-"],
        ahead: "(?:xox[abposrecd][-.]|xapp-)[A-Za-z0-9%.-]{20,}",
        behind: "", check: Check::Real,
        like: &[
            "«xoxb-844320385779-⟦+⟧2553780508169-0UCRO⟦+⟧ycSMtNzlndZ7ucN4NDL»",
            "«xapp-1-A1HDIE5LA9K-7343822381713⟦+⟧-21d78ed41415e97a498a647c1ac4972⟦+⟧6e45dac31b3629fb0f26f89264f879130»",
            "«xoxe.xoxp-1-WM8JqTDLVWcePVvXLHy1TzEujdGvjHyKmZdCCCgl⟦+⟧GapsIak1WEXuquKXKq8FVA1p31eTJQGG4PHJfRiiHUdPKkiCgQX8M⟦+⟧SZjNI6Pu3igP4GAG8DfyyskNsvOFwKJ1QBbZnhHSk4HFqlNOPmxyg»",
        ],
        unlike: &[
            "xoxb-your-token-goes-here-now",
            "xoxb-xxxxxxxxxxxx-xxxxxxxxxxxx",
        ],
    },
    Form {
        kind: "webhook", anchors: &["hooks.slack.com/"],
        ahead: r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{30,})",
        behind: "", check: Check::Real,
        like: &[
            "https://hooks.slack.com/services/«TDPEVGCNL/BTVF3⟦+⟧LAU00C/FyPJugrK⟦+⟧JzWxINM7OrVtEAy4»",
        ],
        unlike: &[
            "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
        ],
    },
    Form {
        kind: "webhook", anchors: &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"],
        ahead: r"discord(?:app)?\.com/api/webhooks/\d+/([A-Za-z0-9_-]{40,})",
        behind: "", check: Check::Real,
        like: &[
            "https://discord.com/api/webhooks/707851913056159277/«RhmG7V3xmOIgdeZ6e_Gyyr⟦+⟧wzLdr2nAm-CO810m6SqbKty⟦+⟧7ElqLiX40ePbFwXxiqTuVcs»",
        ],
        unlike: &[],
    },
    Form {
        kind: "webhook", anchors: &["webhook.office.com/webhookb2/"],
        ahead: r"webhook\.office\.com/webhookb2/([A-Za-z0-9@/-]{40,})",
        behind: "", check: Check::None,
        like: &[
            "https://acme.webhook.office.com/webhookb2/«40n459ZTfU94gymM219KZhAA2LG8PdkzqQvW@rGj⟦+⟧v3wgqYI7w5QqaEgnVcR9SXTqtorY8hzrD/Incomin⟦+⟧gWebhook/ffb013ce94e1af408461c58790dd2cfb»",
        ],
        unlike: &[],
    },
    Form {
        kind: "webhook", anchors: &["hooks.zapier.com/"],
        ahead: r"hooks\.zapier\.com/hooks/catch/(\d+/[A-Za-z0-9]{6,})",
        behind: "", check: Check::None,
        like: &[
            "https://hooks.zapier.com/hooks/catch/«12345⟦+⟧67/b3⟦+⟧x9kq2»",
        ],
        unlike: &[],
    },
    Form {
        kind: "discord-token", anchors: &["MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"],
        ahead: r"(?:M[Tjz]|N[DTjz]|O[DT])[A-Za-z0-9_-]{21,26}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",
        behind: "", check: Check::Real,
        like: &[
            "bot «MTAs5RUK1kf0DyiW5IMhz4D⟦+⟧KT.vhKrT6.GmxuXin8Zp4zNh⟦+⟧uyox8iOa50UoFTj80JjyuykP»",
        ],
        unlike: &[],
    },
    Form {
        kind: "stripe-key", anchors: &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_"],
        ahead: "[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,}",
        behind: "", check: Check::Real,
        like: &[
            "«sk_live_Qc⟦+⟧xACi0skTWm8⟦+⟧XQP4E4jGwmr»",
            "«rk_live_1a1ztH7TKpL9uovsHxZZ18yv1VZ⟦+⟧ZfzVW3Lt3Jivhaq75SINVrE7aEgA2kqPkbZN⟦+⟧kuRy2ry21IJOq2wPgH5S5Cv07pY4SIpt4tYn»",
        ],
        unlike: &[
            "sk_test_4eC39HqLyjWDarjtT1zdp7dc",
            "if (sk_live_mode === true) return",
        ],
    },
    Form {
        kind: "webhook-secret", anchors: &["whsec_"],
        ahead: "whsec_[A-Za-z0-9+/=]{24,}",
        behind: "", check: Check::Real,
        like: &[
            "«whsec_5RtExm⟦+⟧m0gRmN5OTGXrk⟦+⟧4zFXBshEH19UN»",
        ],
        unlike: &[],
    },
    Form {
        kind: "sendgrid-key", anchors: &["SG."],
        ahead: r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30,}",
        behind: "", check: Check::Real,
        like: &[
            "«SG.A6R5jH5EF7O9clrqdbak⟦+⟧Dc.WDi2vIjLOzx0cHvqgJ9R⟦+⟧366YrYOzVkYJC4ZZhZlCCIt»",
        ],
        unlike: &[
            "SG.NewClient.WithDefaultOptions",
        ],
    },
    Form {
        kind: "telegram-token", anchors: &[":AA"],
        ahead: r":AA[A-Za-z0-9_-]{32,34}\b",
        behind: r"\d{8,10}", check: Check::Real,
        like: &[
            "https://api.telegram.org/bot«3608485295:AAWT⟦+⟧GCvLsWa5BztdxGV⟦+⟧G2JXx4efF6VyUe50»/getMe",
            "«218948635:AAHQq⟦+⟧B86MtR80hbxuuYK⟦+⟧z51bIIAHNuliYBA»",
        ],
        unlike: &[],
    },
    Form {
        kind: "twilio-key", anchors: &["SK"],
        ahead: r"SK[a-f0-9]{32}\b",
        behind: "", check: Check::Real,
        like: &[
            "«SK2e162aaef⟦+⟧6076bc3346e⟦+⟧ee21f5c7ff43»",
        ],
        unlike: &[
            "SKIP",
            "SK_COUNTRY_CODE",
        ],
    },
    Form {
        kind: "linear-key", anchors: &["lin_api_", "lin_oauth_"],
        ahead: "lin_(?:api|oauth)_[A-Za-z0-9]{32,}",
        behind: "", check: Check::Real,
        like: &[
            "«lin_api_6fmYEsPz⟦+⟧4OAZkyv0OovvpCPG⟦+⟧6MzACdDZP879OxrC»",
            "«lin_oauth_d814e0f33545a3⟦+⟧c0202219ec0605e636d32b327⟦+⟧32b89994fa6022136ced62010»",
        ],
        unlike: &[],
    },
    Form {
        kind: "grafana-token", anchors: &["glsa_", "glc_"],
        ahead: "(?:glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}|glc_[A-Za-z0-9+/=]{32,})",
        behind: "", check: Check::Real,
        like: &[
            "«glsa_qrI26bz4DL⟦+⟧n8ScQtIQyT2WBUY⟦+⟧GKcK8pp_fa870d0a»",
            "«glc_eyJOi4W60VAxxxP4VyFiKGC02Ubo⟦+⟧VXEiH9dKNhDpqiP86a76hsx9oFpNNSw6⟦+⟧4AtQbtH8LncnrKs8vSwZPVQ9BFs3NpQn9»",
        ],
        unlike: &[],
    },
    Form {
        kind: "pulumi-token", anchors: &["pul-"],
        ahead: r"pul-[a-f0-9]{40}\b",
        behind: "", check: Check::Real,
        like: &[
            "«pul-422c922202⟦+⟧b243f8e5389cd5e⟦+⟧3eaa60c736ba806»",
        ],
        unlike: &[],
    },
    Form {
        kind: "mailgun-key", anchors: &["key-"],
        ahead: r"key-[a-f0-9]{32}\b",
        behind: "", check: Check::Real,
        like: &[
            "mailgun «key-22598514⟦+⟧f31c82712908⟦+⟧4bb54b8bb537»",
        ],
        unlike: &[
            "key-value-store-implementation-notes",
        ],
    },
    Form {
        kind: "mailchimp-key", anchors: &["-us"],
        ahead: r"-us\d{1,2}\b",
        behind: "[a-f0-9]{32}", check: Check::None,
        like: &[
            "api «59c0767cb7f8⟦+⟧013cb790fef3⟦+⟧3ef2c3ff-us21»",
        ],
        unlike: &[
            "node-in-us1",
        ],
    },
    Form {
        kind: "figma-token", anchors: &["figd_", "figo_", "figu_"],
        ahead: "fig[dou]_[A-Za-z0-9_-]{30,}",
        behind: "", check: Check::Real,
        like: &[
            "«figd_Wd24HPYIiu⟦+⟧48erHJc9bwOH3He⟦+⟧VobMK9h76QJ5oMa»",
        ],
        unlike: &[],
    },
    Form {
        kind: "notion-token", anchors: &["ntn_"],
        ahead: "ntn_[A-Za-z0-9]{40,}",
        behind: "", check: Check::Real,
        like: &[
            "«ntn_RqyXEHteeQLg⟦+⟧Aopzg5BpervCipOxf⟦+⟧qmIpXJYz48UvC22Xq»",
        ],
        unlike: &[],
    },
    Form {
        kind: "notion-token", anchors: &["secret_"],
        ahead: r"secret_[A-Za-z0-9]{43}\b",
        behind: "", check: Check::Random,
        like: &[
            "«secret_5pLsOBmd5⟦+⟧uFcN2CScI1MTvUlM8⟦+⟧EZBrKAX8eOEeXg28v»",
        ],
        unlike: &[
            "secret_name=database_credentials",
        ],
    },
    Form {
        kind: "sentry-token", anchors: &["sntrys_", "sntryu_"],
        ahead: "sntry[su]_[A-Za-z0-9+/=_-]{40,}",
        behind: "", check: Check::Real,
        like: &[
            "«sntrys_eyJfrNn5NM1eMTydRO9wUCaLVaqtBkXxKP01⟦+⟧AJmzQmdejjtYIQPjHR9aJ6IhIlU4wDKObKFl0cyaQ4kq⟦+⟧O3J9vR98taGDb60G9B5SESw9L3IaEhY2TzqptglHcPf=»",
            "«sntryu_b6d28c587db821f6⟦+⟧a0efa5ea7d26dc47bbcfb476⟦+⟧8314cd2feabbda5f05cb3967»",
        ],
        unlike: &[],
    },
    Form {
        kind: "postman-key", anchors: &["PMAK-"],
        ahead: "PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
        behind: "", check: Check::Real,
        like: &[
            "«PMAK-6b9852e160d80205⟦+⟧27057587-0032264fa2ba⟦+⟧9df8a1285822184aaf4614»",
        ],
        unlike: &[],
    },
    Form {
        kind: "doppler-token", anchors: &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."],
        ahead: r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",
        behind: "", check: Check::Real,
        like: &[
            "«dp.pt.1sbYStBOTz⟦+⟧EzeGElJMytczdy0O⟦+⟧nF0qekbIAM7lNG1od»",
            "«dp.st.prd.PwQgbhi⟦+⟧VuDBOuBOgSNotsdnM5⟦+⟧LNTq5QIKDOdxV0ttr9»",
        ],
        unlike: &[],
    },
    Form {
        kind: "onepassword-token", anchors: &["ops_eyJ"],
        ahead: "ops_eyJ[A-Za-z0-9+/=_-]{60,}",
        behind: "", check: Check::Real,
        like: &[
            "«ops_eyJsyzTZUhuTDxmUFSDUgPJL7o4PdBMUHygth3XrtehTxEGqEnYbeEQzqgOcU2e8t⟦+⟧axtXicx7u7UnDGxdFo7RIC286jIEdrnCTqE2wqxVbhFJZsGt9vDCS6xqIhGsEUK0im1aK⟦+⟧PLYwzbtVXH5PdjHFQ8v85u5YeO9LmzSwdZtMuyIvM69fG30gVzPBQge0sJ2nUULuv2VrM»",
        ],
        unlike: &[],
    },
    Form {
        kind: "newrelic-key", anchors: &["NRAK-", "NRJS-", "NRII-", "NRAL"],
        ahead: r"(?:NRAK-[A-Z0-9]{27}|NRJS-[a-f0-9]{19}|NRII-[A-Za-z0-9_-]{32})\b",
        behind: "", check: Check::Real,
        like: &[
            "«NRAK-0DAOW⟦+⟧AQCCUOURXTX⟦+⟧WZYSHOA0PDK»",
            "«NRII-Tngpw3n⟦+⟧RerHsWoRG6r8⟦+⟧7brufIMPpDDdv»",
        ],
        unlike: &[],
    },
    Form {
        kind: "newrelic-key", anchors: &["NRAL"],
        ahead: r"NRAL\b",
        behind: "[a-f0-9]{36}", check: Check::None,
        like: &[
            "«22f16ec9fc9fa⟦+⟧b9b32fed0766b⟦+⟧b31ed04d25NRAL»",
        ],
        unlike: &[],
    },
    Form {
        kind: "shopify-token", anchors: &["shpat_", "shpss_", "shpca_", "shppa_"],
        ahead: "shp(?:at|ss|ca|pa)_[a-fA-F0-9]{32}",
        behind: "", check: Check::Real,
        like: &[
            "«shpat_9b3717⟦+⟧bd5c2d6a9a5f0⟦+⟧4c5503b11606e»",
        ],
        unlike: &[],
    },
    Form {
        kind: "square-token", anchors: &["sq0atp-", "sq0csp-", "sq0idp-", "EAAA"],
        ahead: "(?:sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{56,})",
        behind: "", check: Check::Real,
        like: &[
            "«sq0atp-Tb⟦+⟧ST4D2Rhjd1⟦+⟧b7GLArVegd»",
            "«sq0csp-WdWZO7bi2⟦+⟧G-A4LI1So6Vbr0fZd⟦+⟧U0t3mnUb5KSYoPlX1»",
            "«EAAAE94-8j8Z8SVdJtxIz⟦+⟧Mt2qtyT7AF9tz3mUASuzp⟦+⟧crUzXkORDp94_juCsp9Oqg»",
        ],
        unlike: &[],
    },
    Form {
        kind: "mail-key", anchors: &["xkeysib-", "xsmtpsib-", "re_"],
        ahead: "(?:x(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16}|re_[A-Za-z0-9]{6,10}_[A-Za-z0-9]{20,})",
        behind: "", check: Check::Random,
        like: &[
            "«xkeysib-c80bc2b08a9f5c0266144⟦+⟧9771d833424d61fcd25491215310a5⟦+⟧3e5356b6b3dac-aQcOeBrt5LKL5JyW»",
            "«re_ovpDchnr_⟦+⟧5Cycjy4kAcc4⟦+⟧BmoVqZg8J3D6»",
        ],
        unlike: &[
            "re_compile_pattern_with_flags",
        ],
    },
    Form {
        kind: "saas-key", anchors: &["phx_", "rzp_live_", "rzp_test_", "dt0c01.", "CFPAT-", "PMAT-", "fio-u-", "duffel_live_", "EZAK", "EZTK", "shippo_live_", "tfp_", "rdme_", "zpka_", "pnu_", "ico-", "flb_live_", "live_pub"],
        ahead: r"(?:phx_[A-Za-z0-9_]{40,}|rzp_(?:live|test)_[A-Za-z0-9]{14,}|dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}|CFPAT-[A-Za-z0-9_-]{40,}|PMAT-[A-Za-z0-9]{20,}|fio-u-[A-Za-z0-9_-]{40,}|duffel_live_[A-Za-z0-9_-]{40,}|EZ[AT]K[a-f0-9A-Za-z]{54}|shippo_live_[a-f0-9]{40}|tfp_[A-Za-z0-9_.-]{40,}|rdme_[a-z0-9]{60,}|zpka_[a-z0-9_]{30,}|pnu_[A-Za-z0-9]{36}|ico-[A-Za-z0-9]{32})",
        behind: "", check: Check::Random,
        like: &[
            "«phx_yjhJfLsYKsp⟦+⟧Agz7ysg8A2zXatqM⟦+⟧kYuqaV9e9l7nKU5Y»",
            "«rzp_liv⟦+⟧e_MR5Nyq⟦+⟧yn0AlsUU»",
            "«dt0c01.9QVK85RF5CJ1F0S61AFIGYRH.⟦+⟧12QF2XGC5TNEQRXN6671R3UZ4HCJSD8I⟦+⟧WYPQ6C24BFFCN34FSVLIHL6QVKKO4OQQ»",
            "«CFPAT-HcUmIx4bM1⟦+⟧8oHxd79ZhUPozVR8⟦+⟧8_ivM_qUrMvwOR_kq»",
            "«pnu_YkjLUxBUN⟦+⟧dH9SdoXkx88rs⟦+⟧Xe87oMi93qqLXM»",
            "«rdme_mtspe0an9en66hphsgma⟦+⟧rd1frua60w8lamlognhr6uyzb⟦+⟧e1hr6j1xbbd18ykxx9iwxq8jk»",
        ],
        unlike: &[],
    },
    Form {
        kind: "airtable-token", anchors: &["pat"],
        ahead: r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b",
        behind: "", check: Check::Real,
        like: &[
            "«patKJJHlyzHKTgkkG.fde017d47⟦+⟧07b72fcdaf171e7156282a2a2d9⟦+⟧2e7459da3d51f35191a136c576d8»",
        ],
        unlike: &[
            "path.join",
            "pattern.matches",
        ],
    },
    Form {
        kind: "hubspot-token", anchors: &["pat-na", "pat-eu"],
        ahead: r"pat-(?:na|eu)\d-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}",
        behind: "", check: Check::Real,
        like: &[
            "«pat-na1-e27e07⟦+⟧c3-6d29-ba78-a7⟦+⟧1c-dd24221683cf»",
        ],
        unlike: &[],
    },
    Form {
        kind: "launchdarkly-key", anchors: &["sdk-", "api-"],
        ahead: "(?:sdk|api)-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}",
        behind: "", check: Check::Real,
        like: &[
            "«sdk-863fe92f-⟦+⟧442f-d405-123⟦+⟧a-7178b5bd85ee»",
        ],
        unlike: &[
            "api-gateway-7f9c4d",
        ],
    },
    Form {
        kind: "mapbox-token", anchors: &["sk.eyJ"],
        ahead: r"sk\.eyJ[A-Za-z0-9_-]{40,}\.[A-Za-z0-9_-]{20,}",
        behind: "", check: Check::Real,
        like: &[
            "«sk.eyJLAIFiub3Po6Jq3QtHHzYFqOAJC3WF3⟦+⟧TlU26vyj37lc9py81kiMThNeuVIXWgjlOnRq⟦+⟧gIgBabqmLCiSRH.xotcxXhePt73giYiSSZ1tC»",
        ],
        unlike: &[],
    },
    Form {
        kind: "facebook-token", anchors: &["EAAC", "EAAG", "EAAB"],
        ahead: "EAA[CGB][A-Za-z0-9]{60,}",
        behind: "", check: Check::Random,
        like: &[
            "«EAAC0QeUurNuc3WtTdXFwXupN0OybpvrQoXsBRjDVXaCb9mh4q3⟦+⟧9TzyOVVeGuyvvLfGXMR5fCtI5V2a39cSaJUJpLtKWRD7r2PVC2L⟦+⟧5DbbMJxyXgHH5RcgZmQBZYLYyAvXHwUVIrCntMNBlrknOSGMt226»",
        ],
        unlike: &[],
    },
    Form {
        kind: "braintree-token", anchors: &["access_token$"],
        ahead: r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}",
        behind: "", check: Check::Real,
        like: &[
            "«access_token$production$⟦+⟧po4uhcu7f63hpn2t$db073ac⟦+⟧7d7a7c198ffe01ce75fc538e2»",
        ],
        unlike: &[],
    },
];
