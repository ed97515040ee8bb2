package component

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// checkControllers checks whether the controllers work: deployments make pods,
// namespaces get the CA and accounts with working tokens, certificates
// are signed.
func (c *controlPlane) checkControllers(client kubernetes.Interface) {
	ctx := context.Background()
	labels := map[string]string{"app": "demo"}
	replicas := int32(2)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "demo"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "demo", Image: "demo"}}},
			},
		},
	}
	if _, err := client.AppsV1().Deployments("default").Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the deployment has two pods", func() error {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=demo"})
		if err == nil && len(pods.Items) != 2 {
			err = fmt.Errorf("it has %d", len(pods.Items))
		}
		return err
	})
	c.eventually("the default namespace has the authority", func() error {
		authority, err := client.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		if err == nil && authority.Data["ca.crt"] != string(c.pki.CA()) {
			err = fmt.Errorf("it is another one")
		}
		return err
	})
	c.checkToken(client)
	c.checkSigning(client)
	c.log("controllers work")
}

// checkToken asks for a token of an account through one API server, and uses
// it with the last one.
func (c *controlPlane) checkToken(client kubernetes.Interface) {
	ctx := context.Background()
	var token string
	c.eventually("the default account gets a token", func() error {
		request, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err == nil {
			token = request.Status.Token
		}
		return err
	})
	other := kubernetes.NewForConfigOrDie(&rest.Config{
		Host:            APIServerURL(c.nodes[len(c.nodes)-1].Address),
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.CA()},
	})
	review, err := other.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username != "system:serviceaccount:default:default" {
		c.t.Errorf("with the token one is %v: %v", review, err)
	}
}

func (c *controlPlane) checkSigning(client kubernetes.Interface) {
	ctx := context.Background()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "somebody"}}, key)
	if err != nil {
		c.t.Fatal(err)
	}
	requests := client.CertificatesV1().CertificateSigningRequests()
	request, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "somebody"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"},
	}
	if _, err := requests.UpdateApproval(ctx, "somebody", request, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the certificate is signed", func() error {
		signed, err := requests.Get(ctx, "somebody", metav1.GetOptions{})
		if err == nil && len(signed.Status.Certificate) == 0 {
			err = fmt.Errorf("not yet: %v", signed.Status.Conditions)
		}
		return err
	})
}
