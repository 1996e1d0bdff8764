//! Users and roles: there are none, and etcd's clients are told so as an etcd without any tells them.
//!
//! What would make one is not offered. So nobody can log in, and nobody has to.

use tonic::{Request, Response, Status};

use crate::dialect::Dialect;
use crate::errors::EtcdError;
use crate::proto::etcdserverpb::auth_server::Auth;
use crate::proto::etcdserverpb::*;

/// What etcd says of users and roles that were never changed.
const AUTH_REVISION: u64 = 1;

fn not_kept() -> Status {
    Status::unimplemented(
        "this server keeps no users and roles of etcd: whoever reaches its listener may use it, so bind it to an \
         address that only they reach",
    )
}

#[tonic::async_trait]
impl Auth for Dialect {
    async fn auth_enable(&self, _: Request<AuthEnableRequest>) -> Result<Response<AuthEnableResponse>, Status> {
        Err(EtcdError::RootUserMissing.into())
    }

    async fn auth_disable(&self, _: Request<AuthDisableRequest>) -> Result<Response<AuthDisableResponse>, Status> {
        Ok(Response::new(AuthDisableResponse { header: Some(self.present_header()) }))
    }

    async fn auth_status(&self, _: Request<AuthStatusRequest>) -> Result<Response<AuthStatusResponse>, Status> {
        let header = Some(self.present_header());
        Ok(Response::new(AuthStatusResponse { header, enabled: false, auth_revision: AUTH_REVISION }))
    }

    async fn authenticate(&self, _: Request<AuthenticateRequest>) -> Result<Response<AuthenticateResponse>, Status> {
        Err(EtcdError::AuthNotEnabled.into())
    }

    async fn user_add(&self, request: Request<AuthUserAddRequest>) -> Result<Response<AuthUserAddResponse>, Status> {
        Err(if request.get_ref().name.is_empty() { EtcdError::UserEmpty.into() } else { not_kept() })
    }

    async fn user_get(&self, _: Request<AuthUserGetRequest>) -> Result<Response<AuthUserGetResponse>, Status> {
        Err(EtcdError::UserNotFound.into())
    }

    async fn user_list(&self, _: Request<AuthUserListRequest>) -> Result<Response<AuthUserListResponse>, Status> {
        Ok(Response::new(AuthUserListResponse { header: Some(self.present_header()), users: Vec::new() }))
    }

    async fn user_delete(&self, _: Request<AuthUserDeleteRequest>) -> Result<Response<AuthUserDeleteResponse>, Status> {
        Err(EtcdError::UserNotFound.into())
    }

    async fn user_change_password(
        &self,
        _: Request<AuthUserChangePasswordRequest>,
    ) -> Result<Response<AuthUserChangePasswordResponse>, Status> {
        Err(EtcdError::UserNotFound.into())
    }

    async fn user_grant_role(
        &self,
        _: Request<AuthUserGrantRoleRequest>,
    ) -> Result<Response<AuthUserGrantRoleResponse>, Status> {
        Err(EtcdError::UserNotFound.into())
    }

    async fn user_revoke_role(
        &self,
        _: Request<AuthUserRevokeRoleRequest>,
    ) -> Result<Response<AuthUserRevokeRoleResponse>, Status> {
        Err(EtcdError::UserNotFound.into())
    }

    async fn role_add(&self, request: Request<AuthRoleAddRequest>) -> Result<Response<AuthRoleAddResponse>, Status> {
        Err(if request.get_ref().name.is_empty() { EtcdError::RoleEmpty.into() } else { not_kept() })
    }

    async fn role_get(&self, _: Request<AuthRoleGetRequest>) -> Result<Response<AuthRoleGetResponse>, Status> {
        Err(EtcdError::RoleNotFound.into())
    }

    async fn role_list(&self, _: Request<AuthRoleListRequest>) -> Result<Response<AuthRoleListResponse>, Status> {
        Ok(Response::new(AuthRoleListResponse { header: Some(self.present_header()), roles: Vec::new() }))
    }

    async fn role_delete(&self, _: Request<AuthRoleDeleteRequest>) -> Result<Response<AuthRoleDeleteResponse>, Status> {
        Err(EtcdError::RoleNotFound.into())
    }

    async fn role_grant_permission(
        &self,
        _: Request<AuthRoleGrantPermissionRequest>,
    ) -> Result<Response<AuthRoleGrantPermissionResponse>, Status> {
        Err(EtcdError::RoleNotFound.into())
    }

    async fn role_revoke_permission(
        &self,
        _: Request<AuthRoleRevokePermissionRequest>,
    ) -> Result<Response<AuthRoleRevokePermissionResponse>, Status> {
        Err(EtcdError::RoleNotFound.into())
    }
}
