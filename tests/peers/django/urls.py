"""The library's endpoints, Django's sign-in, one thing that a token opens, and `POST /peer/revoke`, which takes every consent back
as the library's own revocation endpoint does."""

from django.contrib.auth.views import LoginView
from django.http import HttpResponse, JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from oauth2_provider.decorators import protected_resource
from oauth2_provider.models import get_refresh_token_model


# Without `advertise_metadata` the library answers 403 to a token that is over, with nothing that tells it from a missing scope.
@protected_resource(scopes=["read"], advertise_metadata=True)
def me(request):
    user = request.resource_owner
    return JsonResponse({"username": user.username, "name": user.get_full_name(), "email": user.email})


@csrf_exempt
@require_POST
def revoke(_request):
    for token in get_refresh_token_model().objects.filter(revoked=None):
        token.revoke()
    return HttpResponse(status=204)


urlpatterns = [
    path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")),
    path("accounts/login/", LoginView.as_view(), name="login"),
    path("api/me", me),
    path("peer/revoke", revoke),
]
