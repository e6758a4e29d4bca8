"""An OAuth server from PyPI, django-oauth-toolkit, set up as its documentation says: refresh tokens rotate, and a used one that is
shown again ends its whole family, at once or after a grace."""

import os
from pathlib import Path

HERE = Path(__file__).parent

SECRET_KEY = os.environ["PEER_CLIENT_SECRET"]
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGIN_URL = "/accounts/login/"

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["PEER_DATABASE"],
        # Requests come at once, each on a thread of its own: who writes waits for who writes already.
        "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
    }
}
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "oauth2_provider",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [HERE / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
            ]
        },
    }
]
OAUTH2_PROVIDER = {
    "SCOPES": {"read": "Read orders and customers", "write": "Change orders and customers"},
    "ACCESS_TOKEN_EXPIRE_SECONDS": int(os.environ["PEER_LIFE_SECS"]),
    "ROTATE_REFRESH_TOKEN": True,
    "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": int(os.environ["PEER_GRACE_SECS"]),
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
}
