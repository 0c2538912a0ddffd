//! The forms of tokens: forges and package registries. Values are made up; the marks inside keep other scanners calm.

use super::{Check, Form};

#[rustfmt::skip]
pub(super) static FORMS: &[Form] = &[
    Form {
        kind: "gh-token", anchors: &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        ahead: "gh[pousr]_[A-Za-z0-9]{36,}",
        behind: "", check: Check::Real,
        like: &[
            "GITHUB_TOKEN=«ghp_3YVZpE9Hb⟦+⟧06WjPYMdSWPbC⟦+⟧RqBVzJPtIFMRi1»",
            "«gho_yIjcd1yzP⟦+⟧KXWNuZYo9lNT8⟦+⟧egNO2crI8tQm5c»",
            "«ghs_lXiPZmgNI⟦+⟧3wHrgFi2RvxwY⟦+⟧BqtkJTAYtFsLx2»",
            "/tmp/«ghp_OUMq5GEj6⟦+⟧XzgwTMEtTFOSI⟦+⟧0tZSWZ26dxo4o3».json",
        ],
        unlike: &[
            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
            "ghs_token_prefix",
        ],
    },
    Form {
        kind: "gh-token", anchors: &["github_pat_"],
        ahead: "github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{50,}",
        behind: "", check: Check::Real,
        like: &[
            "«github_pat_3I7RLBXrzqsW5aBqtsdP⟦+⟧2Z_W5oGLSHR6muOtrCZCmKbMwTJYvCj⟦+⟧Too8Lk1OkfthQ7bqrkW7AH1wxpS5C42»",
        ],
        unlike: &[
            "github_pat_11AAAA...",
        ],
    },
    Form {
        kind: "gitlab-token", anchors: &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "gloas-", "glimt-", "glagent-", "glffct-", "glwt-"],
        ahead: "gl(?:pat|dt|rt|cbt|ptt|ft|soat|oas|imt|agent|ffct|wt)-[A-Za-z0-9_.-]{20,}",
        behind: "", check: Check::Real,
        like: &[
            "«glpat-Gf⟦+⟧OEoasL1yc⟦+⟧jLs24r5Ga»",
            "«glrt-t1_2⟦+⟧Q-YFhWUeh⟦+⟧fHVts0LZnR»",
            "«glptt-4ff770e4b⟦+⟧9447a3d54ec6390⟦+⟧bf61189639e35aee»",
        ],
        unlike: &[
            "glpat-xxxxxxxxxxxxxxxxxxxx",
        ],
    },
    Form {
        kind: "gitlab-token", anchors: &["GR1348941"],
        ahead: "GR1348941[A-Za-z0-9_-]{20,}",
        behind: "", check: Check::Real,
        like: &[
            "«GR1348941⟦+⟧ulVJFB7-Kq⟦+⟧hN-3-YpBtL»",
        ],
        unlike: &[],
    },
    Form {
        kind: "npm-token", anchors: &["npm_"],
        ahead: "npm_[A-Za-z0-9]{36,}",
        behind: "", check: Check::Random,
        like: &[
            "«npm_pSon7upsQ⟦+⟧pPFIvBBxZ1JSX⟦+⟧L9oh257rKGyu1T»",
        ],
        unlike: &[
            "npm_config_registry=https://registry.npmjs.org/",
            "npm_package_dependencies_typescript",
        ],
    },
    Form {
        kind: "package-token", anchors: &["pypi-"],
        ahead: "pypi-[A-Za-z0-9_-]{40,}",
        behind: "", check: Check::Random,
        like: &[
            "«pypi-AgEIcHlwaS5vcmcpwXtodvRvgeHFNzGb_2_UmKSdU⟦+⟧R4zLF49YbvAE2SkJH1rI4BWVwlA4sZ8Kp62TzKHqm1v9Rmr⟦+⟧DYc5KSv1ue4yhOdXZOcgMYg-d6cOK0J4RON6yVY8LRvHzeG»",
        ],
        unlike: &[
            "pypi-publish-to-the-test-index-with-trusted-publishing",
        ],
    },
    Form {
        kind: "crates-token", anchors: &["cio"],
        ahead: r"cio[A-Za-z0-9]{32}\b",
        behind: "", check: Check::Random,
        like: &[
            "token «cioXCAsm9Nd⟦+⟧THtIb64Fn3Mk⟦+⟧H6u3WKXv1Vzw»",
        ],
        unlike: &[
            "cionaltransportationauthorityoftexas",
        ],
    },
    Form {
        kind: "package-token", anchors: &["rubygems_"],
        ahead: "rubygems_[a-f0-9]{48}",
        behind: "", check: Check::Real,
        like: &[
            "«rubygems_0837bbf1b3⟦+⟧ba3178b6e0e30f32854⟦+⟧9c488e00a4ff1125cf5»",
        ],
        unlike: &[],
    },
    Form {
        kind: "nuget-key", anchors: &["oy2"],
        ahead: r"oy2[a-z0-9]{43}\b",
        behind: "", check: Check::Random,
        like: &[
            "«oy22zo7exv7ntic⟦+⟧nkx3v3ywuav4vob⟦+⟧p3cjjryre6qw7ic9»",
        ],
        unlike: &[],
    },
    Form {
        kind: "clojars-token", anchors: &["CLOJARS_"],
        ahead: "CLOJARS_[a-f0-9]{60}",
        behind: "", check: Check::Real,
        like: &[
            "«CLOJARS_36d3b97429ab7b⟦+⟧ca1aafb77b4460ecec95249⟦+⟧98a26259bebd2fa58805870»",
        ],
        unlike: &[],
    },
    Form {
        kind: "artifactory-token", anchors: &["AKC", "cmVmdGtuOj"],
        ahead: "(?:AKC[a-z0-9][A-Za-z0-9]{60,}|cmVmdGtuOj[A-Za-z0-9+/=]{40,})",
        behind: "", check: Check::Random,
        like: &[
            "«AKCp8NDZcM5mS3gpGMPuD9Im⟦+⟧DFEz04kVuIAMRip4AoU7BNUU⟦+⟧3vBpfZnrzVLD3ayCFonVxfmZQ»",
            "«cmVmdGtuOj8d3AB7UkpUD⟦+⟧antu1VKFBJNJhx1FW0XbW⟦+⟧irl3jJqmkVOvnQ0tewCxpT»",
        ],
        unlike: &[],
    },
    Form {
        kind: "atlassian-token", anchors: &["ATATT3", "ATCTT3", "ATBB", "ATSTT3"],
        ahead: "(?:AT(?:A|C|S)TT3[A-Za-z0-9_=-]{40,}|ATBB[A-Za-z0-9]{24,})",
        behind: "", check: Check::Real,
        like: &[
            "«ATATT3xFfGF06jujQgB8MuTdzLDRPHaXhuTWUDsf4_bsx6bpDNBIzsHdw0wcDgC⟦+⟧h3edtap2jm_bU9iRmkLqA-fUo5bGauF4X3RmDOTBRmTtMV7yL1ryqEeZBERd3NCG⟦+⟧oIOP-R2AWcSOt_JsbcJiWBhiIFZG0uiBpF6kq0iz2o1xTxx0SAegweZ=7A1B2C3D»",
            "«ATBBqHF1nyC6⟦+⟧tDZsjUrpcjqU⟦+⟧dkAevp2egVli»",
        ],
        unlike: &[],
    },
    Form {
        kind: "ci-token", anchors: &["CCIPAT_", "bkua_", "bkct_", "sgp_", "sqp_", "squ_", "sqa_", "dp1_"],
        ahead: "(?:CCIPAT_[A-Za-z0-9_]{40,}|bk(?:ua|ct)_[a-f0-9]{40}|sgp_[A-Za-z0-9_]{40,}|sq[pua]_[a-f0-9]{40})",
        behind: "", check: Check::Real,
        like: &[
            "«CCIPAT_YP0oyv3YWtEZhRnq⟦+⟧r0UEoz_788fbf742b65b754⟦+⟧e51acbd3d48c3bb9e28c9e3e»",
            "«bkua_f5404bf7ba⟦+⟧c806081598a878e⟦+⟧2f264d9b1ecb19d»",
            "«sgp_d8b7c46b26⟦+⟧a22eccdf03eeddf⟦+⟧52ecf4076c19ace»",
            "«squ_327203f26e⟦+⟧16af1d4d14aa605⟦+⟧882ac89cd1997cd»",
        ],
        unlike: &[],
    },
];
