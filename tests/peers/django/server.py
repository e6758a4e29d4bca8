"""Makes the database, somebody, and the OAuth app; then serves on a free port, and says on which."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"

import django  # noqa: E402

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from oauth2_provider.models import get_application_model  # noqa: E402

call_command("migrate", verbosity=0)
get_user_model().objects.create_user(
    "ada", os.environ["PEER_PERSON"], os.environ["PEER_PASSWORD"], first_name="Ada", last_name="Admin"
)
App = get_application_model()
App.objects.create(
    name="Holdfast",
    client_id=os.environ["PEER_CLIENT_ID"],
    client_secret=os.environ["PEER_CLIENT_SECRET"],
    client_type=App.CLIENT_CONFIDENTIAL,
    authorization_grant_type=App.GRANT_AUTHORIZATION_CODE,
    redirect_uris=os.environ["PEER_REDIRECT_URI"],
)
server = ThreadedWSGIServer(("127.0.0.1", 0), WSGIRequestHandler)
server.set_app(get_wsgi_application())
print(f"listening on 127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
